"""Vectors of many texts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from purlin.training.loop.devices import make_accelerator
from purlin.training.loop.settings import LoopSettings
from purlin.training.models.encoding import encode
from tests.support.code_pairs import save_code_bert, tiny

pytestmark = pytest.mark.usefixtures("one_process")


def test_encoding_keeps_order_and_truncates(tmp_path: Path) -> None:
    accelerator = make_accelerator(LoopSettings(precision="fp32"), cpu=True)
    text_model = tiny(save_code_bert(tmp_path))
    texts = ["read", "", "copy the map at once " * 40, "find a line", "read"]
    vectors = encode(text_model, texts, 8, accelerator)
    one_by_one = np.concatenate([encode(text_model, [text], 8, accelerator) for text in texts])

    np.testing.assert_allclose(vectors, one_by_one, atol=1e-6)
    np.testing.assert_allclose(
        vectors[2], encode(text_model, ["copy the map at once copy"], 8, accelerator)[0], atol=1e-6
    )
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
