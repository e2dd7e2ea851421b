"""How a transformer uses the machine it runs on: measured once, then remembered.

The best number of threads and size of batches differ between processors: with their caches, with
cores that share their units (SMT), with a container's quota. `load_tuned` measures them in some
two seconds and keeps them in the user's cache directory,

    CACHE/tuning/KEY.json

where KEY is of everything that the result depends on: processor, CPUs, versions, encoder. The
variable PURLIN_TUNING turns this off ("off": the defaults) or fixes the numbers
("threads=4,batch_tokens=512,query_threads=1"; what is left out has its default). Vectors do not
depend on any of it beyond the last bits.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from purlin.index import cache
from purlin.index.cpus import available_cpus
from purlin.index.encoder import (
    Plan,
    TextEncoder,
    encoder_fingerprint,
    load_encoder,
    transformer_directory,
)
from purlin.index.encoder.text_encoder import plan_of
from purlin.index.encoder.transformer import Encoder, require_transformers
from purlin.index.errors import InvalidInput
from purlin.index.storage import atomic_write

VARIABLE = "PURLIN_TUNING"
FORMAT = 1
LIMITS = {"threads": 1024, "batch_tokens": 1 << 16, "query_threads": 64}

BATCH_TOKENS_TRIED = (256, 128, 512, 1024)
QUERY_THREADS_TRIED = (1, 2, 4)
ROUNDS = 3
# Another plan than the default must be faster by this factor: below, it is chance.
MARGIN = 1.1
# More threads for one text must make it this much faster, at this much more work at most:
# what they cost is missing as soon as requests run side by side.
QUERY_GAIN, QUERY_COST = 1.4, 1.3
QUERIES_PER_ROUND = 12
# One thread that takes this much longer than it computes shares its processor with others.
BUSY = 1.25
# Each of the three measurements stops after the round in which it exceeds this.
BUDGET_S = 1.0

SAMPLE_QUERY = "how to read a text file line by line and strip the newline"
# About as long as the median function.
SAMPLE_PASSAGE = (
    "def read_lines(path, encoding='utf-8'):\n    with open(path, encoding=encoding) as file:\n"
    "        return [line.rstrip() for line in file if line.strip()]\n"
)


def load_tuned(
    directory: Path, *, measure: bool = True, max_threads: int | None = None
) -> TextEncoder:
    """Load an encoder whose transformer works by the plan for this machine; a static one has none.

    Without `measure`, a plan that is not remembered yet is the default. A batch never uses more
    than `max_threads`. Raises what `load_encoder` raises, and InvalidInput for PURLIN_TUNING.
    """
    transformer = transformer_directory(directory)
    if transformer is None:
        return load_encoder(directory)

    require_transformers("encoder")
    plan = _fixed_plan(os.environ.get(VARIABLE, "")) or _plan_of_machine(transformer, measure)
    threads = min(plan.threads, max_threads or plan.threads)
    return load_encoder(directory, plan=replace(plan, threads=threads))


def summary(encoder: TextEncoder) -> str | None:
    """Describe in one line how an encoder uses the machine; None for one without a plan."""
    plan = plan_of(encoder)
    if plan is None:
        return None

    query = "1 thread" if plan.query_threads == 1 else f"{plan.query_threads} threads"
    batches = "1 batch" if plan.threads == 1 else f"{plan.threads} batches"
    return (
        f"encoder {encoder.name}: {batches} of {plan.batch_tokens} tokens at a time, {query} for a "
        f"query ({plan.source}; {VARIABLE} changes it)"
    )


def is_news(encoder: TextEncoder) -> bool:
    """Whether an encoder's plan was measured just now, or set; one that is remembered is not news."""
    plan = plan_of(encoder)
    return plan is not None and plan.source in ("measured", "set")


def _plan_of_machine(directory: Path, may_measure: bool) -> Plan:
    """Return the remembered plan, else a measured one, else the default."""
    key = {"format": FORMAT, "encoder": encoder_fingerprint(directory), **machine()}
    file = cache.cache_directory() / "tuning" / f"{_digest(key)[:20]}.json"
    if (plan := _remembered(file, key)) is not None:
        return plan
    if not may_measure:
        return Plan(available_cpus())

    plan = measured_plan(directory)
    if plan.source == "measured":
        _remember(file, key, plan)
    return plan


# -- the setting ---------------------------------------------------------------------------------


def _fixed_plan(setting: str) -> Plan | None:
    """Read PURLIN_TUNING: a plan, or None for "auto" and nothing."""
    if setting.strip() in ("", "auto"):
        return None
    if setting.strip() == "off":
        return Plan(available_cpus())

    numbers = {"threads": available_cpus()}
    for part in setting.split(","):
        name, _, number = part.strip().partition("=")
        if name not in LIMITS or not number.isdecimal():
            raise InvalidInput(
                f"{VARIABLE} has {part.strip()[:40]!r}; use auto, off, or numbers such as "
                "threads=4,batch_tokens=256,query_threads=1.",
                field="tuning",
            )
        if not 1 <= int(number) <= LIMITS[name]:
            raise InvalidInput(
                f"{VARIABLE} has {name} {number}; it must be in 1 to {LIMITS[name]}.",
                field="tuning",
            )
        numbers[name] = int(number)
    return Plan(**numbers, source="set")


# -- the cache -----------------------------------------------------------------------------------


def machine(cpuinfo: Path = Path("/proc/cpuinfo")) -> dict[str, Any]:
    """Return what a measurement depends on beside the encoder: processor, CPUs, versions."""
    import onnxruntime  # type: ignore[import-untyped]

    facts = {"model name": platform.processor(), "flags": ""}
    with contextlib.suppress(OSError):
        # The first processor's paragraph; ARM calls the flags Features and has no model name.
        for line in cpuinfo.read_text(errors="replace").split("\n\n")[0].splitlines():
            name, _, value = line.partition(":")
            facts[{"Features": "flags"}.get(name.strip(), name.strip())] = value.strip()

    return {
        "architecture": platform.machine(),
        "processor": facts["model name"] or facts.get("CPU part", ""),
        "flags": _digest(sorted(facts["flags"].split())),
        "cpus": available_cpus(),
        "onnxruntime": onnxruntime.__version__,
    }


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _remembered(file: Path, key: Mapping[str, Any]) -> Plan | None:
    """Read a plan; None if there is none, or its file is not what `_remember` writes."""
    try:
        content = json.loads(file.read_bytes())
        numbers = {name: content["plan"][name] for name in LIMITS}
        matches = content["key"] == key
    except (OSError, ValueError, KeyError, TypeError):
        return None

    in_range = all(
        type(number) is int and 1 <= number <= LIMITS[name] for name, number in numbers.items()
    )
    return Plan(**numbers, source="remembered") if matches and in_range else None


def _remember(file: Path, key: Mapping[str, Any], plan: Plan) -> None:
    content = {"key": key, "plan": {name: asdict(plan)[name] for name in LIMITS}}
    # Without a cache directory, the next process measures again.
    with contextlib.suppress(OSError):
        cache.create(cache.cache_directory())
        file.parent.mkdir(exist_ok=True)
        with atomic_write(file) as out:
            out.write(json.dumps(content, indent=2).encode())


# -- the measurement -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cost:
    """The least seconds of a clock and of processors' work that one run took."""

    wall_s: float
    cpu_s: float


def measured_plan(directory: Path) -> Plan:
    """Measure which plan is best for an encoder on this machine, in about two seconds.

    Work on one thread is measured by its processor's time, so that other load does not decide;
    several threads by the clock, so on a busy machine their numbers stay the defaults, and the
    plan's source is "default".
    """
    cpus = available_cpus()
    encoder = Encoder.load(directory, plan=Plan(1))
    encoder.encode([SAMPLE_PASSAGE], role="passage")

    plans = [Plan(1, tokens) for tokens in BATCH_TOKENS_TRIED]
    costs = measure([_passages(encoder, plan, max(BATCH_TOKENS_TRIED)) for plan in plans])
    batch_tokens = plans[choose_least([cost.cpu_s for cost in costs])].batch_tokens
    if min(cost.wall_s / cost.cpu_s for cost in costs) > BUSY:
        return Plan(cpus, batch_tokens)

    # Every thread gets several batches, as in a build.
    plans = [Plan(threads, batch_tokens) for threads in _thread_counts(cpus)]
    costs = measure([_passages(encoder, plan, 4 * cpus * batch_tokens) for plan in plans])
    threads = plans[choose_least([cost.wall_s for cost in costs])].threads

    counts = [count for count in QUERY_THREADS_TRIED if count <= cpus]
    costs = measure([_queries(directory, count) for count in counts])
    return Plan(threads, batch_tokens, counts[choose_query(costs)], "measured")


def measure(runs: Sequence[Callable[[], object]]) -> list[Cost]:
    """Time several ways to do the same work, in turn; returns the least of up to ROUNDS rounds."""
    costs = [Cost(math.inf, math.inf)] * len(runs)
    if len(runs) == 1:
        return costs

    started = time.perf_counter()
    for _ in range(ROUNDS):
        for number, run in enumerate(runs):
            wall_s, cpu_s = time.perf_counter(), time.process_time()
            run()
            wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
            least = costs[number]
            costs[number] = Cost(min(least.wall_s, wall_s), min(least.cpu_s, cpu_s))
        if time.perf_counter() - started > BUDGET_S:
            break
    return costs


def choose_least(seconds: Sequence[float]) -> int:
    """Return the position of the least, or 0, the default's, unless it is clearly less."""
    least = min(seconds)
    return seconds.index(least) if least * MARGIN < seconds[0] else 0


def choose_query(costs: Sequence[Cost]) -> int:
    """Return the position of the fastest way that is worth its work; 0 is one thread's."""
    best = 0
    for number, cost in enumerate(costs):
        faster = cost.wall_s * QUERY_GAIN <= costs[best].wall_s
        if faster and cost.cpu_s <= QUERY_COST * costs[0].cpu_s:
            best = number
    return best


def _thread_counts(cpus: int) -> list[int]:
    """All CPUs first; then fewer, which are better where CPUs share a core or memory's bandwidth."""
    return list(dict.fromkeys([cpus, max(1, cpus * 3 // 4), max(1, cpus // 2)]))


def _passages(encoder: Encoder, plan: Plan, tokens: int) -> Callable[[], object]:
    """Return the encoding of passages that have some `tokens` tokens together."""
    passage_tokens = min(int(encoder.count_tokens([SAMPLE_PASSAGE])[0]), encoder.max_tokens)
    texts = [SAMPLE_PASSAGE] * max(1, tokens // passage_tokens)
    planned = encoder.with_plan(plan)
    return lambda: planned.encode(texts, role="passage")


def _queries(directory: Path, threads: int) -> Callable[[], object]:
    encoder = Encoder.load(directory, plan=Plan(1, query_threads=threads))
    encoder.encode([SAMPLE_QUERY], role="query")

    def encode() -> None:
        for _ in range(QUERIES_PER_ROUND):
            encoder.encode([SAMPLE_QUERY], role="query")

    return encode
