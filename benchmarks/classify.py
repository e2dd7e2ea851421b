"""Cost of POST /classify: 1,000 cached labels beside 4, and texts per second beside one pass per text and label.

    python benchmarks/classify.py ROWS.jsonl LABELS.txt [--texts 200] [--rounds 300] [--pipeline] [--txtai]

ROWS are JSON Lines with a `text`. The first part asks a server of its own on a free loopback port, 4 and 1,000 labels
in turn, so that a change in the machine's mood meets both. The second runs in this process, all rows in turn three
times: ours; the zero-shot design (text and hypothesis of every label through an equally large encoder, in the same
ONNX runtime); and with `--pipeline` transformers' own zero-shot pipeline over a BERT of the same size in torch (random
weights: they cost what trained ones do); with `--txtai`, where that is installed, txtai's `Labels` over the same one.
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import islice, product
from pathlib import Path
from typing import Any

import httpx
from search import wait_ready

from index.classify.zero_shot import Classifier
from index.encoder import RELEASED_ENCODER, TOKENIZER, Encoder
from index.evaluation.ranking import read_list

HYPOTHESIS = "This example is {}."  # transformers' own
KINDS = (
    "local national early modern rural urban coastal alpine folk classical digital industrial organic public private "
    "medical legal financial marine polar ancient royal civil military solar"
).split()
THINGS = (
    "music sports politics history law banking farming fishing mining shipping railways aviation architecture painting "
    "theatre dance film literature poetry journalism education chemistry physics biology astronomy geology medicine "
    "nursing insurance taxation trade tourism cooking gardening weather religion language family housing security"
).split()


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("rows", type=Path)
    options.add_argument("labels", type=Path)
    options.add_argument("--texts", type=int, default=200)
    options.add_argument("--rounds", type=int, default=300)
    options.add_argument("--pipeline", action="store_true")
    options.add_argument("--txtai", action="store_true")
    given = options.parse_args()
    with given.rows.open(encoding="utf-8") as file:
        texts = [json.loads(line)["text"] for line in islice(file, given.texts)]
    with tempfile.TemporaryDirectory() as home, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        command = [sys.executable, "-m", "purlin", "serve", "--home", home, "--port", str(port)]
        server = subprocess.Popen(command)
        try:
            served(f"http://127.0.0.1:{port}", texts, given.rounds)
        finally:
            server.terminate()
            server.wait(30)
    rates(texts, read_list(given.labels), given)


def served(url: str, texts: list[str], rounds: int) -> None:
    client = httpx.Client(base_url=url, timeout=600)
    wait_ready(client)
    many = [f"{kind} {thing}" for kind, thing in product(KINDS, THINGS)]
    for size in (1, 16):
        times: dict[int, list[float]] = {4: [], len(many): []}
        for turn in range(rounds + 3):
            chosen = random.Random(turn).choices(texts, k=size)
            for count, known in times.items():
                body = json.dumps({"texts": chosen, "labels": many[:count]}).encode()
                started = time.perf_counter()
                client.post(
                    "/classify", content=body, headers={"Content-Type": "application/json"}
                ).raise_for_status()
                known.append((time.perf_counter() - started) * 1000)
        few, all_of_them = (statistics.median(known[3:]) for known in times.values())
        print(
            f"{size} text(s): 4 labels {few:.2f} ms, {len(many)} labels {all_of_them:.2f} ms (p50 of {rounds})",
            end="",
        )
        print(f", ratio {all_of_them / few:.2f}")


def rates(texts: list[str], labels: list[str], given: argparse.Namespace) -> None:
    encoder = Encoder.load(RELEASED_ENCODER)
    classifier = Classifier(encoder)

    def pairs(texts: list[str]) -> None:
        encoder.encode(
            [f"{text} {HYPOTHESIS.format(label)}" for text in texts for label in labels],
            role="query",
        )

    rows: dict[str, Callable[[list[str]], object]] = {
        "ours": lambda texts: classifier.classify(texts, labels),
        "one pass per text and label, same ONNX runtime": pairs,
    }
    zero_shot = transformers_pipeline() if given.pipeline or given.txtai else None
    if given.pipeline:
        rows["transformers' pipeline, torch"] = lambda texts: zero_shot(
            texts, labels, truncation=True
        )
    if given.txtai:
        from txtai.pipeline import Labels

        theirs = Labels(model=zero_shot)
        rows["txtai's Labels, torch"] = lambda texts: theirs(texts, labels)
    times: dict[str, list[float]] = {name: [] for name in rows}
    for run in rows.values():
        run(texts[:4])
    for _ in range(3):
        for name, run in rows.items():
            started = time.perf_counter()
            run(texts)
            times[name].append(time.perf_counter() - started)
    for name, taken in times.items():
        rate = len(texts) / statistics.median(taken)
        print(
            f"{name}: {rate:.1f} texts/s with {len(labels)} labels, ours / it {taken_ratio(times, name):.1f}"
        )


def taken_ratio(times: dict[str, list[float]], name: str) -> float:
    return statistics.median(times[name]) / statistics.median(times["ours"])


def transformers_pipeline() -> Any:
    from transformers import (
        BertConfig,
        BertForSequenceClassification,
        PreTrainedTokenizerFast,
        pipeline,
    )

    size = {
        "hidden_size": 384,
        "num_hidden_layers": 6,
        "num_attention_heads": 12,
        "intermediate_size": 1536,
    }
    names = {0: "contradiction", 1: "neutral", 2: "entailment"}
    config = BertConfig(
        **size, vocab_size=30522, id2label=names, label2id={name: i for i, name in names.items()}
    )
    special = {
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
    }
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(RELEASED_ENCODER / TOKENIZER), model_max_length=256, **special
    )
    model = BertForSequenceClassification(config).eval()
    return pipeline("zero-shot-classification", model=model, tokenizer=tokenizer, device="cpu")


if __name__ == "__main__":
    main()
