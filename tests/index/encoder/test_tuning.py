"""The plan for this machine: measured once, remembered, fixed by a variable; never other vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

from purlin.app.main import create_app
from purlin.app.settings import Settings
from purlin.index.cpus import available_cpus
from purlin.index.encoder import STATIC_ENCODER, TRANSFORMER_ENCODER, Plan, tuning
from purlin.index.encoder.self_check import SELF_CHECK_TEXTS
from purlin.index.encoder.static import StaticEncoder
from purlin.index.encoder.transformer import Encoder
from purlin.index.encoder.tuning import Cost, load_tuned, measured_plan, summary
from purlin.index.errors import InvalidInput

MEASURED = Plan(1, 512, 1, "measured")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PURLIN_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("PURLIN_TUNING")
    return tmp_path / "cache"


@pytest.fixture
def measurements(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The encoders that were measured; the result is always the same."""
    measured: list[Path] = []

    def fake(directory: Path) -> Plan:
        measured.append(directory)
        return MEASURED

    monkeypatch.setattr(tuning, "measured_plan", fake)
    return measured


def plan_of(directory: Path = TRANSFORMER_ENCODER) -> Plan:
    encoder = load_tuned(directory)
    assert isinstance(encoder, Encoder)
    return encoder.plan


def remembered_file(cache: Path) -> Path:
    (file,) = (cache / "tuning").iterdir()
    return file


def numbers(plan: Plan) -> dict[str, int]:
    return {name: asdict(plan)[name] for name in ("threads", "batch_tokens", "query_threads")}


def test_a_machine_is_measured_once(cache: Path, measurements: list[Path]) -> None:
    assert plan_of() == MEASURED

    again = plan_of()

    assert numbers(again) == numbers(MEASURED)
    assert again.source == "remembered"
    assert measurements == [TRANSFORMER_ENCODER]


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: text.replace('"batch_tokens": 512', '"batch_tokens": 0'),
        lambda text: text.replace('"batch_tokens": 512', '"batch_tokens": true'),
        lambda text: text.replace('"batch_tokens": 512', '"batch_tokens": "512"'),
        lambda text: text.replace('"threads": 1', '"threads": 99999'),
        lambda text: text.replace('"cpus"', '"other"'),
        lambda text: "[]",
        lambda text: '{"plan": 3, "key": {}}',
    ],
)
def test_a_damaged_file_is_measured_again(
    cache: Path, measurements: list[Path], damage: Callable[[str], str]
) -> None:
    plan_of()
    file = remembered_file(cache)
    content = file.read_text()
    assert damage(content) != content
    file.write_text(damage(content))

    assert plan_of() == MEASURED
    assert file.read_text() == content


@pytest.mark.parametrize("fact", ["processor", "flags", "cpus", "onnxruntime"])
def test_another_machine_is_measured(
    cache: Path, measurements: list[Path], monkeypatch: pytest.MonkeyPatch, fact: str
) -> None:
    plan_of()
    other = tuning.machine() | {fact: "another"}
    monkeypatch.setattr(tuning, "machine", lambda: other)

    plan_of()

    assert len(measurements) == 2
    assert len(list((cache / "tuning").iterdir())) == 2


def test_a_busy_machine_is_not_remembered(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "measure", lambda runs: [Cost(2.0, 1.0)] * len(runs))

    assert plan_of() == Plan(available_cpus())
    assert not (cache / "tuning").exists()


def test_a_cache_that_cannot_be_written_is_no_trouble(
    cache: Path, measurements: list[Path]
) -> None:
    cache.write_text("a file where the directory should be")

    assert plan_of() == MEASURED


def test_only_what_is_remembered_is_used_without_measuring(
    cache: Path, measurements: list[Path]
) -> None:
    assert _unmeasured().source == "default"
    plan_of()
    assert _unmeasured().source == "remembered"
    assert len(measurements) == 1


def _unmeasured() -> Plan:
    encoder = load_tuned(TRANSFORMER_ENCODER, measure=False)
    assert isinstance(encoder, Encoder)
    return encoder.plan


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("off", Plan(available_cpus())),
        ("threads=3,batch_tokens=128,query_threads=1", Plan(3, 128, 1, "set")),
        ("batch_tokens=1024", Plan(available_cpus(), 1024, 1, "set")),
        (" query_threads=2 , threads=1 ", Plan(1, 256, 2, "set")),
    ],
)  # fmt: skip
def test_the_variable_fixes_the_plan(
    cache: Path,
    measurements: list[Path],
    monkeypatch: pytest.MonkeyPatch,
    setting: str,
    expected: Plan,
) -> None:
    monkeypatch.setenv("PURLIN_TUNING", setting)

    assert plan_of() == expected
    assert measurements == []
    assert not cache.exists()


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


def test_static_encoders_have_no_plan(cache: Path, measurements: list[Path]) -> None:
    encoder = load_tuned(STATIC_ENCODER)

    assert isinstance(encoder, StaticEncoder)
    assert summary(encoder) is None
    assert measurements == []


def test_the_measurement_tries_only_what_the_machine_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "ROUNDS", 1)
    plan = measured_plan(TRANSFORMER_ENCODER)

    assert plan.batch_tokens in tuning.BATCH_TOKENS_TRIED
    assert 1 <= plan.threads <= available_cpus()
    assert 1 <= plan.query_threads <= available_cpus()


@given(seconds=st.lists(st.floats(0.001, 10), min_size=1, max_size=6))
def test_the_default_stays_unless_another_is_clearly_better(seconds: list[float]) -> None:
    chosen = tuning.choose_least(seconds)
    assert seconds[chosen] <= seconds[0]
    if chosen == 0:
        assert seconds[0] <= min(seconds) * tuning.MARGIN
    else:
        assert seconds[chosen] == min(seconds)


@pytest.mark.parametrize(
    ("costs", "expected"),
    [
        ([Cost(1.0, 1.0)], 0),
        ([Cost(1.0, 1.0), Cost(0.9, 1.0)], 0),
        ([Cost(1.0, 1.0), Cost(0.6, 1.2)], 1),
        ([Cost(1.0, 1.0), Cost(0.6, 1.9)], 0),
        ([Cost(1.0, 1.0), Cost(0.6, 1.2), Cost(0.4, 1.25)], 2),
        ([Cost(1.0, 1.0), Cost(0.6, 1.2), Cost(0.4, 1.5)], 1),
    ],
)
def test_queries_get_threads_that_are_worth_their_work(costs: list[Cost], expected: int) -> None:
    assert tuning.choose_query(costs) == expected


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


@pytest.mark.parametrize(
    ("cpuinfo", "processor"),
    [
        ("processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fpu avx2\n\nprocessor\t: 1\n", "AMD EPYC"),
        ("processor\t: 0\nFeatures\t: fp asimd\nCPU part\t: 0xd0c\n\n", "0xd0c"),
    ],
)  # fmt: skip
def test_a_processor_is_known_by_its_model_and_flags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cpuinfo: str, processor: str
) -> None:
    monkeypatch.setattr("platform.processor", str)
    file = tmp_path / "cpuinfo"
    file.write_text(cpuinfo)
    facts = tuning.machine(file)
    assert facts["processor"] == processor

    file.write_text(cpuinfo.replace("avx2", "avx2 avx512_vnni").replace("asimd", "asimd asimddp"))
    assert tuning.machine(file)["flags"] != facts["flags"]


def test_the_plan_is_a_metric(tmp_path: Path) -> None:
    encoder = Encoder.load(TRANSFORMER_ENCODER, plan=Plan(2, 512, 1, "remembered"))
    with TestClient(create_app(Settings(home=tmp_path), encoder)) as client:
        text = client.get("/metrics").text

    assert (
        'purlin_encoder_plan{batch_tokens="512",query_threads="1",source="remembered",threads="2"} 1.0'
        in text
    )


def test_the_summary_says_who_chose() -> None:
    encoder = Encoder.load(TRANSFORMER_ENCODER, plan=Plan(2, 512, 1, "remembered"))
    line = summary(encoder)
    assert line is not None
    assert "2 batches of 512 tokens" in line
    assert "remembered" in line
