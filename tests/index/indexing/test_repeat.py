from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from purlin.index.indexing.build import build
from purlin.index.indexing.builder import Options
from purlin.index.indexing.repeat import why_not_repeatable
from tests.support.documents import source
from tests.support.hash_encoder import HashEncoder
from tests.support.serving import numbered


@pytest.mark.parametrize(
    ("difference", "remedy"),
    [
        ({"sources": ("a small catalogue",)}, "names no directories or files"),
        ({"logged": 3}, "`purlin index build --query-log`"),
        ({"judged": {"measure": "nDCG@10"}}, "`purlin index build --queries`"),
        # Else the build would be made on this machine, and replace that in Milvus.
        ({"engine": {"collection": "c"}}, "`purlin index build --backend milvus`"),
    ],
)
def test_builds_that_need_more_than_their_manifest_are_not_repeated(
    tmp_path: Path, difference: dict[str, Any], remedy: str
) -> None:
    options = Options(origin=(str(tmp_path),))
    files = [source("all", numbered(3))]
    manifest = build(tmp_path, "c", "code", files, HashEncoder(), options=options)
    assert why_not_repeatable(manifest) is None

    reason = why_not_repeatable(replace(manifest, **difference))
    assert reason is not None
    assert remedy in reason
