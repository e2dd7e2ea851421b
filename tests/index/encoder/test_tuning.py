"""The plan for this machine: the default, or fixed by a variable; never other vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient

from purlin.app.main import create_app
from purlin.app.settings import Settings
from purlin.index.cpus import available_cpus
from purlin.index.encoder import STATIC_ENCODER, TRANSFORMER_ENCODER, Plan
from purlin.index.encoder.self_check import SELF_CHECK_TEXTS
from purlin.index.encoder.static import StaticEncoder
from purlin.index.encoder.transformer import Encoder
from purlin.index.encoder.tuning import load_tuned, summary
from purlin.index.errors import InvalidInput


def plan_of(directory: Path = TRANSFORMER_ENCODER) -> Plan:
    encoder = load_tuned(directory)
    assert isinstance(encoder, Encoder)
    return encoder.plan


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("", Plan(available_cpus())),
        ("off", Plan(available_cpus())),
        ("threads=3,batch_tokens=128,query_threads=1", Plan(3, 128, 1, "set")),
        ("batch_tokens=1024", Plan(available_cpus(), 1024, 1, "set")),
        (" query_threads=2 , threads=1 ", Plan(1, 256, 2, "set")),
    ],
)  # fmt: skip
def test_the_variable_fixes_the_plan(
    monkeypatch: pytest.MonkeyPatch, setting: str, expected: Plan
) -> None:
    monkeypatch.setenv("PURLIN_TUNING", setting)
    assert plan_of() == expected


@pytest.mark.parametrize(
    "setting", ["on", "threads", "threads=", "threads=-1", "threads=x", "cores=2", "threads=2;x"]
)
def test_a_wrong_variable_is_named(monkeypatch: pytest.MonkeyPatch, setting: str) -> None:
    monkeypatch.setenv("PURLIN_TUNING", setting)
    with pytest.raises(InvalidInput, match="PURLIN_TUNING"):
        load_tuned(TRANSFORMER_ENCODER)


@pytest.mark.parametrize("setting", ["threads=0", "threads=1025", "batch_tokens=70000"])
def test_a_number_out_of_range_names_the_range(
    monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    monkeypatch.setenv("PURLIN_TUNING", setting)
    with pytest.raises(InvalidInput, match=r"must be in 1 to \d+"):
        load_tuned(TRANSFORMER_ENCODER)


def test_a_limit_of_threads_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PURLIN_TUNING", "threads=8")
    encoder = load_tuned(TRANSFORMER_ENCODER, max_threads=3)
    assert isinstance(encoder, Encoder)
    assert encoder.plan.threads == 3


def test_static_encoders_have_no_plan() -> None:
    encoder = load_tuned(STATIC_ENCODER)

    assert isinstance(encoder, StaticEncoder)
    assert summary(encoder) is None


@pytest.fixture(scope="module")
def reference() -> tuple[list[str], np.ndarray]:
    """Texts of uneven lengths, and their vectors computed one by one on one thread."""
    texts = [f"{text} {number}" for number in range(3) for text in SELF_CHECK_TEXTS]
    encoder = Encoder.load(TRANSFORMER_ENCODER, plan=Plan(1))
    return texts, np.concatenate([encoder.encode([text], role="passage") for text in texts])


@pytest.mark.parametrize(
    "plan", [Plan(1, 1), Plan(2, 128), Plan(3, 256, 2), Plan(2, 1024, 4), Plan(1, 1 << 16)]
)
def test_vectors_do_not_depend_on_the_plan(
    reference: tuple[list[str], np.ndarray], plan: Plan
) -> None:
    texts, expected = reference
    encoder = Encoder.load(TRANSFORMER_ENCODER, plan=plan)

    np.testing.assert_allclose(encoder.encode(texts, role="passage"), expected, atol=1e-6)
    alone = [encoder.encode([text], role="query") for text in texts[:8]]
    np.testing.assert_allclose(np.concatenate(alone), expected[:8], atol=1e-6)


def test_the_plan_is_a_metric(tmp_path: Path) -> None:
    encoder = Encoder.load(TRANSFORMER_ENCODER, plan=Plan(2, 512, 1, "set"))
    with TestClient(create_app(Settings(home=tmp_path), encoder)) as client:
        text = client.get("/metrics").text

    assert (
        'purlin_encoder_plan{batch_tokens="512",query_threads="1",source="set",threads="2"} 1.0'
        in text
    )


def test_the_summary_says_who_chose() -> None:
    encoder = Encoder.load(TRANSFORMER_ENCODER, plan=Plan(2, 512, 1, "set"))
    line = summary(encoder)
    assert line is not None
    assert "2 batches of 512 tokens" in line
    assert "set" in line
