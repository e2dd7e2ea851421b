"""Write an index of txtai from texts and their vectors, and the configuration of its service.

    python txtai_index.py TEXTS.jsonl VECTORS.npy CHECKPOINT OUT [--hybrid]

Runs in an environment of its own and imports nothing of Purlin. The service afterwards is txtai's
own, `uvicorn txtai.api:app`; it encodes queries itself. Only the encoding of the texts is replaced
here by their vectors, which are the same for every contestant.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from txtai import Embeddings
from txtai.vectors import HFVectors


def build(texts: Path, vectors: Path, checkpoint: Path, out: Path, hybrid: bool) -> None:
    """Index all texts with their contents, as txtai's documentation does."""
    with texts.open(encoding="utf-8") as lines:
        documents = [json.loads(line) for line in lines]
    matrix = np.load(vectors).astype(np.float32)
    rows = {document["text"]: row for row, document in enumerate(documents)}

    def encode(_self: HFVectors, data: list[str], _category: str | None = None) -> np.ndarray:
        return matrix[[rows[text] for text in data]]

    HFVectors.encode = encode
    embeddings = Embeddings(path=str(checkpoint), content=True, hybrid=hybrid)
    embeddings.index((document["id"], document["text"]) for document in documents)
    embeddings.save(str(out / "index"))

    # JSON is YAML, too.
    config = {
        "path": str(out / "index"),
        "writable": False,
        "embeddings": {"path": str(checkpoint)},
    }
    (out / "config.yml").write_text(json.dumps(config), encoding="utf-8")


if __name__ == "__main__":
    out = Path(sys.argv[4])
    out.mkdir(parents=True, exist_ok=True)
    build(*map(Path, sys.argv[1:4]), out, "--hybrid" in sys.argv)
