"""Encoders side by side: texts per second with every core, and the cosine to torch's vectors."""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from benchmarks.peers.environments import HERE, python_of
from benchmarks.speed.corpora import Shared, judged_set
from benchmarks.speed.records import Records
from purlin.index.encoder.transformer import Encoder

TORCH, ONNX, PURLIN = "sentence-transformers", "sentence-transformers-onnx-int8", "purlin"

# One pass over all texts: seconds, and the file with their vectors.
Pass = Callable[[], float]


def compare(scratch: Path, data: Path, rounds: int, texts: int) -> None:
    """Measure passes over the same random functions in turns."""
    shared = Shared(scratch, judged_set("csn", data))
    encoder = shared.encoder()
    sample = write_sample(shared, texts)
    contents = [json.loads(line)["text"] for line in sample.open(encoding="utf-8")]
    records = Records(scratch, "encode")

    with ExitStack() as stack:
        passes = {PURLIN: purlin_pass(encoder, contents, vectors_of(scratch, PURLIN))}
        for name, environment, backend in (
            (TORCH, "home_made", "torch"),
            (ONNX, "onnx", "onnx-int8"),
        ):
            python = python_of(environment, scratch)
            out = vectors_of(scratch, name)
            command = [python, HERE / "encode_rate.py", shared.checkpoint, backend, sample, out]
            passes[name] = stack.enter_context(peer_pass(list(map(str, command))))

        for number in range(rounds):
            for name, encode in passes.items():
                key = {"part": "rate", "contestant": name, "texts": texts, "round": number}
                if not records.has(**key):
                    seconds = encode()
                    records.add(**key, seconds=seconds, rate=texts / seconds)

    for name in passes:
        cosine = mean_cosine(vectors_of(scratch, name), vectors_of(scratch, TORCH))
        records.add(part="accuracy", contestant=name, cosine=cosine, texts=texts)


def write_sample(shared: Shared, count: int) -> Path:
    """Random functions of the corpus, the same in every call."""
    from benchmarks.speed.vectors import corpus_texts

    path = shared.scratch / f"texts-encode-{count}.jsonl"
    if not path.exists():
        contents = list(corpus_texts(shared.judged.corpus))
        chosen = random.Random(0).sample(contents, count)
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in chosen))
    return path


def vectors_of(scratch: Path, name: str) -> Path:
    return scratch / f"encoded-{name}.npy"


def purlin_pass(encoder: Encoder, texts: Sequence[str], out: Path) -> Pass:
    encoder.encode(texts[:64], role="passage")

    def encode() -> float:
        started = time.perf_counter()
        vectors = encoder.encode(texts, role="passage")
        seconds = time.perf_counter() - started
        np.save(out, vectors)
        return seconds

    return encode


@contextmanager
def peer_pass(command: Sequence[str]) -> Iterator[Pass]:
    """A process that encodes all texts whenever a line is sent to it."""
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        if not any(line.strip() == "ready" for line in process.stdout):
            raise RuntimeError(f"{command} ended before it was ready")

        def encode() -> float:
            print(file=process.stdin, flush=True)
            return float(json.loads(process.stdout.readline())["seconds"])

        yield encode
        process.stdin.close()


def mean_cosine(vectors: Path, reference: Path) -> float:
    """Mean cosine of unit vectors, row by row."""
    return float((np.load(vectors) * np.load(reference)).sum(axis=1).mean())
