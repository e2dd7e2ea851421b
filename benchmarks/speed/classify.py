"""Measure POST /classify: the cost of 1,000 labels beside 4, and its rate beside other designs.

    python -m benchmarks.speed.classify ROWS.jsonl LABELS.txt
        [--texts 200] [--rounds 300] [--pipeline] [--txtai]

ROWS are JSON Lines with a `text`. The first part starts a server on a free loopback port and sends
4 and 1,000 labels in turn, so that other work on the machine slows both alike.

The second part runs in this process, each design three times in turn over all rows: Purlin; one
pass per text and label (as zero-shot classifiers do) through an encoder of the same size and in
the same ONNX runtime; with `--pipeline` the zero-shot pipeline of transformers in torch, over a
BERT of the same size (its random weights cost what trained ones do); and with `--txtai` txtai's
`Labels` over that pipeline, if txtai is installed.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import islice, product
from pathlib import Path
from typing import Any

import httpx

from benchmarks.speed.processes import READY, free_port, serving
from purlin.index.classify.zero_shot import Classifier
from purlin.index.encoder import LABEL_ENCODER
from purlin.index.encoder.exported import TOKENIZER
from purlin.index.encoder.transformer import Encoder
from purlin.index.evaluation.ranking import read_list

HYPOTHESIS = "This example is {}."  # the default of transformers
WARM_UP_ROUNDS = 3
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


def measure_label_counts(url: str, texts: list[str], rounds: int) -> None:
    """Print the median latency of a request with few and with many labels."""
    client = httpx.Client(base_url=url, timeout=600)
    labels = [f"{adjective} {noun}" for adjective, noun in product(ADJECTIVES, NOUNS)]

    for size in (1, 16):
        times: dict[int, list[float]] = {4: [], len(labels): []}
        for round_number in range(rounds + WARM_UP_ROUNDS):
            batch = random.Random(round_number).choices(texts, k=size)
            for count, milliseconds in times.items():
                milliseconds.append(post_classify(client, batch, labels[:count]))

        few, many = (statistics.median(each[WARM_UP_ROUNDS:]) for each in times.values())
        print(
            f"{size} text(s): 4 labels {few:.2f} ms, {len(labels)} labels {many:.2f} ms "
            f"(p50 of {rounds}), ratio {many / few:.2f}"
        )


def post_classify(client: httpx.Client, texts: list[str], labels: list[str]) -> float:
    """Milliseconds of one request, without the time to write its body."""
    body = json.dumps({"texts": texts, "labels": labels}).encode()
    headers = {"Content-Type": "application/json"}

    started = time.perf_counter()
    client.post("/classify", content=body, headers=headers).raise_for_status()
    return (time.perf_counter() - started) * 1000


def measure_designs(texts: list[str], labels: list[str], options: argparse.Namespace) -> None:
    """Print texts per second of each design, and how many times faster ours is."""
    designs = classifiers(labels, options)
    for classify in designs.values():
        classify(texts[:4])

    seconds: dict[str, list[float]] = {name: [] for name in designs}
    for _ in range(3):
        for name, classify in designs.items():
            started = time.perf_counter()
            classify(texts)
            seconds[name].append(time.perf_counter() - started)

    medians = {name: statistics.median(each) for name, each in seconds.items()}
    for name, median in medians.items():
        print(
            f"{name}: {len(texts) / median:.1f} texts/s with {len(labels)} labels, "
            f"ours / it {median / medians['ours']:.1f}"
        )


def classifiers(
    labels: list[str], options: argparse.Namespace
) -> dict[str, Callable[[list[str]], object]]:
    """The designs to compare; each classifies a list of texts."""
    encoder = Encoder.load(LABEL_ENCODER)
    classifier = Classifier(encoder)

    def encode_pairs(texts: list[str]) -> None:
        hypotheses = [HYPOTHESIS.format(label) for label in labels]
        pairs = [f"{text} {hypothesis}" for text in texts for hypothesis in hypotheses]
        encoder.encode(pairs, role="query")

    designs: dict[str, Callable[[list[str]], object]] = {
        "ours": lambda texts: classifier.classify(texts, labels),
        "one pass per text and label, same ONNX runtime": encode_pairs,
    }

    zero_shot = transformers_pipeline() if options.pipeline or options.txtai else None
    if options.pipeline:
        designs["transformers' pipeline, torch"] = lambda texts: zero_shot(
            texts, labels, truncation=True
        )
    if options.txtai:
        from txtai.pipeline import Labels

        txtai_labels = Labels(model=zero_shot)
        designs["txtai's Labels, torch"] = lambda texts: txtai_labels(texts, labels)
    return designs


def transformers_pipeline() -> Any:
    """The zero-shot pipeline of transformers over a BERT of our encoder's size, untrained."""
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
    ids = {name: number for number, name in names.items()}
    config = BertConfig(**size, vocab_size=30522, id2label=names, label2id=ids)
    model = BertForSequenceClassification(config).eval()

    special_tokens = {
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
    }
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(LABEL_ENCODER / TOKENIZER), model_max_length=256, **special_tokens
    )
    return pipeline("zero-shot-classification", model=model, tokenizer=tokenizer, device="cpu")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", type=Path)
    parser.add_argument("labels", type=Path)
    parser.add_argument("--texts", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--pipeline", action="store_true")
    parser.add_argument("--txtai", action="store_true")
    options = parser.parse_args()

    with options.rows.open(encoding="utf-8") as file:
        texts = [json.loads(line)["text"] for line in islice(file, options.texts)]

    port = free_port()
    with tempfile.TemporaryDirectory() as scratch:
        home, log = Path(scratch) / "home", Path(scratch) / "server.log"
        command = [sys.executable, "-m", "purlin", "serve", "--home", home, "--port", str(port)]
        with serving(command, port, READY, log=log):
            measure_label_counts(f"http://127.0.0.1:{port}", texts, options.rounds)
    measure_designs(texts, read_list(options.labels), options)


if __name__ == "__main__":
    main()
