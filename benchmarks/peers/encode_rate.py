"""Encode texts with sentence-transformers; a line of JSON for each line that comes in.

    python encode_rate.py CHECKPOINT torch|onnx-int8 TEXTS.jsonl OUT.npy

Runs in an environment of its own and imports nothing of Purlin. After "ready", each line on the
standard input starts one timed pass over all texts, so that contestants can be measured in turns.
"""

from __future__ import annotations

import json
import platform
import sys
import time
from pathlib import Path

import numpy as np
from sentence_transformers import SentenceTransformer


def model_of(checkpoint: Path, backend: str, scratch: Path) -> SentenceTransformer:
    if backend == "torch":
        return SentenceTransformer(str(checkpoint), device="cpu")

    from sentence_transformers import export_dynamic_quantized_onnx_model

    # The quantization that its documentation recommends for processors with AVX512-VNNI.
    flags = Path("/proc/cpuinfo").read_text() if platform.system() == "Linux" else ""
    variant = "avx512_vnni" if "avx512_vnni" in flags else "avx2"
    directory = scratch / "onnx-int8"
    if not directory.exists():
        plain = SentenceTransformer(str(checkpoint), backend="onnx", device="cpu")
        plain.save_pretrained(str(directory))
        export_dynamic_quantized_onnx_model(plain, variant, str(directory))
    file_name = (
        f"onnx/model_qint8_{variant}.onnx" if variant != "avx2" else "onnx/model_quint8_avx2.onnx"
    )
    return SentenceTransformer(
        str(directory), backend="onnx", device="cpu", model_kwargs={"file_name": file_name}
    )


def main() -> None:
    checkpoint, backend, texts_path, out = sys.argv[1:]
    with Path(texts_path).open(encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]

    model = model_of(Path(checkpoint), backend, Path(out).parent)
    model.encode(texts[:64])
    print("ready", flush=True)
    for _ in sys.stdin:
        started = time.perf_counter()
        vectors = model.encode(texts, normalize_embeddings=True)
        seconds = time.perf_counter() - started
        np.save(out, vectors)
        print(json.dumps({"seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()
