"""How a transformer uses the machine it runs on: by defaults, or as the variable PURLIN_TUNING says.

That has "off", the defaults, or numbers such as "threads=4,batch_tokens=512,query_threads=1"; what is
left out has its default. Vectors do not depend on any of it beyond the last bits.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from purlin.index.cpus import available_cpus
from purlin.index.encoder import Plan, TextEncoder, is_static, load_encoder
from purlin.index.encoder.text_encoder import plan_of
from purlin.index.errors import InvalidInput

VARIABLE = "PURLIN_TUNING"
LIMITS = {"threads": 1024, "batch_tokens": 1 << 16, "query_threads": 64}


def load_tuned(directory: Path, *, max_threads: int | None = None) -> TextEncoder:
    """Load an encoder whose transformer works by the plan for this machine; a static one has none.

    A batch never uses more than `max_threads`. Raises what `load_encoder` raises, and InvalidInput for
    PURLIN_TUNING.
    """
    if is_static(directory):
        return load_encoder(directory)

    plan = _plan(os.environ.get(VARIABLE, ""))
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


def _plan(setting: str) -> Plan:
    """Read PURLIN_TUNING; "auto", as it was called where plans were measured, has the defaults, too."""
    if setting.strip() in ("", "auto", "off"):
        return Plan(available_cpus())

    numbers = {"threads": available_cpus()}

    for part in setting.split(","):
        name, _, number = part.strip().partition("=")
        if name not in LIMITS or not number.isdecimal():
            raise InvalidInput(
                f"{VARIABLE} has {part.strip()[:40]!r}; use off, or numbers such as "
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
