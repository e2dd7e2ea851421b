"""Zero-shot classification side by side: latency of one text with 4 and with 1,000 labels."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict
from itertools import product
from pathlib import Path

from benchmarks.peers.contestants import run_script
from benchmarks.peers.environments import python_of
from benchmarks.speed.corpora import Shared, judged_set
from benchmarks.speed.load import Client, Request, measure
from benchmarks.speed.processes import Running, free_port, serving
from benchmarks.speed.records import Records
from purlin.index.evaluation.ranking import read_list

# Every pair of an adjective and a noun is a label: 25 x 40 = 1,000.
ADJECTIVES = (
    "local national early modern rural urban coastal alpine folk classical digital industrial "
    "organic public private medical legal financial marine polar ancient royal civil military "
    "solar"
).split()
NOUNS = (
    "music sports politics history law banking farming fishing mining shipping railways "
    "aviation architecture painting theatre dance film literature poetry journalism education "
    "chemistry physics biology astronomy geology medicine nursing insurance taxation trade "
    "tourism cooking gardening weather religion language family housing security"
).split()
LABELS = tuple(f"{adjective} {noun}" for adjective, noun in product(ADJECTIVES, NOUNS))
FEW = 4
# Of a contestant that takes seconds for a request, fewer are sent.
REQUESTS = {"purlin": 100, "txtai-similarity": 20, "txtai-label": 3}
FEW_REQUESTS = {"purlin": 100, "txtai-similarity": 100, "txtai-label": 50}
JUDGED_TEXTS = 200


def compare(scratch: Path, data: Path, rounds: int) -> None:
    """Measure in turns; accuracy on AG News' four classes, except for the untrained model."""
    shared = Shared(scratch, judged_set("cosqa", data))
    shared.prepare()
    texts, expected, labels = read_texts(data / "ag_news")

    records = Records(scratch, "classify")
    with ExitStack() as stack:
        purlin = stack.enter_context(serve_purlin(shared))
        txtai = stack.enter_context(serve_txtai(shared))
        services = {"purlin": purlin, "txtai-similarity": txtai, "txtai-label": txtai}

        for name in ("purlin", "txtai-similarity"):
            measure_accuracy(name, services[name], records, texts, expected, labels)
        for number in range(rounds):
            for count in (FEW, len(LABELS)):
                for name, running in services.items():
                    measure_latency(name, running, records, texts, count, number)


def read_texts(directory: Path) -> tuple[list[str], list[str], list[str]]:
    """Texts, their labels, and all labels."""
    lines = (directory / "dev.jsonl").read_text(encoding="utf-8").splitlines()[:JUDGED_TEXTS]
    rows = [json.loads(line) for line in lines]
    labels = read_list(directory / "labels.txt")
    return [row["text"] for row in rows], [row["label"] for row in rows], labels


def serve_purlin(shared: Shared) -> AbstractContextManager[Running]:
    port = free_port()
    home = shared.scratch / "home-empty"
    command = [sys.executable, "-m", "purlin", "serve", "--home", home, "--port", str(port)]
    ready = request("purlin", "a text", LABELS[:FEW])
    log = shared.scratch / "logs" / "purlin-classify.log"
    return serving([*command, "--encoder", shared.encoder_directory], port, ready, log=log)


def serve_txtai(shared: Shared) -> AbstractContextManager[Running]:
    python = python_of("txtai", shared.scratch)
    directory = shared.scratch / "txtai-labels"
    if not (directory / "config.yml").exists():
        run_script(python, "txtai_labels.py", shared.checkpoint, directory)

    port = free_port()
    command = [python, "-m", "uvicorn", "txtai.api:app", "--port", str(port), "--no-access-log"]
    environment = {"CONFIG": str(directory / "config.yml"), "HF_HUB_OFFLINE": "1"}
    ready = request("txtai-label", "a text", LABELS[:FEW])
    log = shared.scratch / "logs" / "txtai-classify.log"
    return serving(command, port, ready, log=log, environment=environment)


def request(name: str, text: str, labels: Sequence[str]) -> Request:
    if name == "purlin":
        return Request("POST", "/classify", {"texts": [text], "labels": list(labels)})
    if name == "txtai-label":
        return Request("POST", "/label", {"text": text, "labels": list(labels)})
    return Request("POST", "/similarity", {"query": text, "texts": list(labels)})


def best_label(name: str, reply: bytes, labels: Sequence[str]) -> str:
    content = json.loads(reply)
    if name == "purlin":
        return str(content["results"][0]["label"])
    return labels[content[0]["id"]]


def measure_accuracy(
    name: str,
    running: Running,
    records: Records,
    texts: Sequence[str],
    expected: Sequence[str],
    labels: Sequence[str],
) -> None:
    key = {"part": "accuracy", "contestant": name}
    if records.has(**key):
        return

    client = Client(running.port)
    hits = 0
    for text, label in zip(texts, expected, strict=True):
        reply = client.content(request(name, text, labels))
        hits += best_label(name, reply, labels) == label
    client.close()
    records.add(**key, accuracy=hits / len(texts), texts=len(texts))


def measure_latency(
    name: str, running: Running, records: Records, texts: Sequence[str], count: int, number: int
) -> None:
    key: Mapping[str, object] = {
        "part": "latency",
        "contestant": name,
        "labels": count,
        "round": number,
    }
    if records.has(**key):
        return

    requests = (FEW_REQUESTS if count == FEW else REQUESTS)[name]
    warm_up = 1 if requests < 10 else 5
    start = number * requests
    chosen = [texts[(start + offset) % len(texts)] for offset in range(requests + warm_up)]
    load = measure(
        running.port, [request(name, text, LABELS[:count]) for text in chosen], 1, warm_up
    )
    records.add(**dict(key) | asdict(load))
