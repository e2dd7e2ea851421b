"""Whole runs by the command: what they write, how they are resumed, what is refused."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate.state import AcceleratorState
from safetensors.torch import load_file

from purlin import cli
from purlin.index.encoder.transformer import Encoder
from purlin.index.errors import InvalidInput, NotFound
from purlin.training import config
from purlin.training.data.pairs.pair import PairSource
from purlin.training.dev import DevEvaluator
from purlin.training.loop.devices import make_accelerator
from purlin.training.loop.recorded_recipe import same_recipe
from purlin.training.loop.settings import LoopSettings
from purlin.training.models.text_model import load_text_model
from purlin.training.santa.recipe import SantaRecipe, Stage, StageTeacher
from purlin.training.santa.run import REPORT, _recipe_until, train_santa
from tests.support.santa import HELD, write_recipe
from tests.support.training_runs import metrics_rows, run_apart

pytestmark = pytest.mark.usefixtures("graphs_once")

TRAIN = ("train", "santa", "--cpu", "--config")


def command(*arguments: object) -> None:
    """Run `purlin ...` in this process."""
    terminated = signal.getsignal(signal.SIGTERM)
    before, sys.argv = sys.argv, ["purlin", *map(str, arguments)]

    try:
        cli.main()
    except SystemExit as exit_info:
        if exit_info.code:
            raise
    finally:
        sys.argv = before
        signal.signal(signal.SIGTERM, terminated)


@pytest.fixture(scope="module")
def trained(bases: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("trained")
    recipe = write_recipe(home, bases["bert"])
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    AcceleratorState._reset_state(reset_partial_state=True)
    command(*TRAIN, recipe, "--out", home / "out")
    torch.set_num_threads(threads)
    return home


def test_a_trained_encoder_builds_an_index(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    encoder = Encoder.load(trained / "out/tiny")

    assert encoder.encode(["read the file"], role="query").shape == (1, 32)

    card = json.loads((trained / "out/tiny/encoder.json").read_text())
    assert card["trained_on"][0].startswith("pairs.jsonl")
    assert card["measures"].keys() == {"dev mean", "dev held MRR@100"}
    (trained / "code").mkdir()
    (trained / "code/shop.py").write_text(
        'def copy_map(map, mode):\n    """Copy the map."""\n    return map.copy(mode)\n'
    )
    options = ("--home", trained / "home", "--encoder", trained / "out/tiny")
    command("index", "build", "code", trained / "code", "--name", "shop", *options)
    command("search", "shop", "copy the map", *options)
    assert "copy_map" in capsys.readouterr().out


def test_the_export_is_averaged_with_the_base(trained: Path, bert: Path) -> None:
    finetune = trained / "out/finetune"
    state = json.loads((max(finetune.glob("step-*")) / "training.json").read_text())["state"]
    best = finetune / f"step-{state['best_step']:06d}"
    weights = [
        load_file(directory / "model.safetensors")
        for directory in (bert, best, trained / "out/averaged")
    ]
    name = "encoder.layer.0.attention.self.query.weight"

    torch.testing.assert_close(weights[2][name], 0.25 * weights[0][name] + 0.75 * weights[1][name])
    assert not torch.equal(weights[0][name], weights[1][name])


def test_a_run_records_what_was_masked(trained: Path) -> None:
    report = (trained / "out" / REPORT).read_text()
    assert "masks: identifiers by Python's tokenizer and tree-sitter" in report
    assert "pairs; 0 removed as copies" in report


def test_the_card_has_the_measures_of_the_export(trained: Path) -> None:
    recipe = config.load_recipe(trained / "recipe.toml", SantaRecipe)
    mixed = load_text_model(recipe.model, trained / "out/averaged")
    expected = DevEvaluator(
        recipe.dev, mixed, make_accelerator(LoopSettings(precision="fp32"), cpu=True)
    ).measure()
    assert json.loads((trained / "out/tiny/encoder.json").read_text())["measures"] == pytest.approx(
        expected
    )


def test_a_finished_run_is_only_exported_again(trained: Path, bert: Path) -> None:
    stages = [
        path for stage in ("pretrain", "finetune") for path in (trained / "out" / stage).rglob("*")
    ]
    kept = (".safetensors", ".png", ".npy")
    before = {path: path.stat().st_mtime_ns for path in stages if path.suffix in kept}
    exported = (trained / "out/tiny/model.onnx").stat().st_mtime_ns
    command(*TRAIN, trained / "recipe.toml", "--out", trained / "out")

    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert (trained / "out/tiny/model.onnx").stat().st_mtime_ns > exported


# -- stopped runs -----------------------------------------------------------------------------------


def killed_in_each_stage(recipe_file: Path, out: Path) -> list[tuple[str, int | None, int]]:
    """Kill a run in both stages; return the stage, the exit code, and how many steps were logged."""
    recipe = config.load_recipe(recipe_file, SantaRecipe)
    ends = []

    def killing(stage: str, name: str) -> Callable[[int, int, Mapping[str, float]], None]:
        def step(number: int, total: int, values: Mapping[str, float]) -> None:
            if (name, number) == (stage, 5):
                os.kill(os.getpid(), signal.SIGKILL)

        return step

    for stage in ("pretrain", "finetune"):
        options = {"progress": partial(killing, stage), "say": str, "cpu": True}
        run = multiprocessing.get_context("fork").Process(
            target=train_santa, args=(recipe, out), kwargs=options
        )
        run.start()
        run.join()
        logged = (out / stage / "metrics.jsonl").read_text().splitlines()
        ends.append((stage, run.exitcode, len(logged)))
    return ends


def stopped_run(
    recipe: SantaRecipe, out: Path, at: int, say: Callable[[str], object] = str
) -> list[tuple[str, int]]:
    """Train until a step of this number, and return the steps of each stage."""
    steps = list[tuple[str, int]]()

    def progress(name: str) -> Callable[[int, int, Mapping[str, float]], None]:
        def step(number: int, total: int, values: Mapping[str, float]) -> None:
            steps.append((name, number))
            if number == at:
                raise KeyboardInterrupt

        return step

    with pytest.raises(KeyboardInterrupt):
        train_santa(recipe, out, progress=progress, say=say, cpu=True)
    return steps


def test_a_killed_run_resumes_along_the_same_curve(trained: Path, tmp_path: Path) -> None:
    ends = run_apart(killed_in_each_stage, trained / "recipe.toml", tmp_path)
    assert ends == [("pretrain", -signal.SIGKILL, 5), ("finetune", -signal.SIGKILL, 5)]
    recipe = config.load_recipe(trained / "recipe.toml", SantaRecipe)
    # The run is resumed from the checkpoint of step 4; 9 is the last step, no need to export.
    assert stopped_run(recipe, tmp_path, 9) == [("finetune", number) for number in range(5, 10)]
    for stage in ("pretrain", "finetune"):
        assert metrics_rows(tmp_path / stage) == metrics_rows(trained / "out" / stage)


def test_a_run_is_not_resumed_with_other_texts(bert: Path, tmp_path: Path) -> None:
    recipe = config.load_recipe(write_recipe(tmp_path, bert), SantaRecipe)
    stopped_run(recipe, tmp_path / "out", 5)
    kept = (tmp_path / "pairs.jsonl").read_text()

    for changed in (kept.replace("open", "shut"), "".join(kept.splitlines(keepends=True)[:-4])):
        (tmp_path / "pairs.jsonl").write_text(changed)
        with pytest.raises(InvalidInput, match="other texts"):
            stopped_run(recipe, tmp_path / "out", 5)

    (tmp_path / "pairs.jsonl").write_text(kept)
    assert stopped_run(recipe, tmp_path / "out", 5) == [("pretrain", 5)]


def test_a_run_is_another_with_another_teacher(bert: Path, tmp_path: Path) -> None:
    source = PairSource("pairs", tmp_path / "p.jsonl")
    directory = tmp_path / "teacher"
    shutil.copytree(bert, directory)
    stage = Stage(name="a", teacher=StageTeacher(base=directory))
    recipe = SantaRecipe(name="tiny", pairs=(source,), stage=(stage,))
    before = _recipe_until(recipe, 0, ["d"])

    (directory / "model.safetensors").write_bytes(b"other weights")
    assert not same_recipe(_recipe_until(recipe, 0, ["d"]), before)


# -- errors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("batch_size = 8", "batch_size = 64", "A batch of 64 exceeds the 24 pairs"),
        ('name = "finetune"', 'name = "pretrain"', "Stages need different names"),
        (HELD, f"{HELD}, {HELD}", "Dev sets need different names; these are held, held"),
        ('name = "finetune"', 'name = "b"\npairs = ["c"]', "named 'c'; give each a name."),
        ('name = "finetune"', 'name = "../up"', "letters, digits and dashes"),
        ("depth = 5", "depth = 0", "depth must be from 1"),
        ("hard_negatives = 1", "hard_negatives = 6", "depth must be from 6"),
        ("mep = 1.0", "sda = 0.0", "trains nothing"),
        ('every = 2, precision = "fp32"', 'every = 2, precision = "bf16"', "same precision"),
        ("mep = 1.0", "weights = [2.0]", "0 pairs and 1 weights"),
        ('path = "dev.jsonl"', 'path = "dev.jsonl", measure = "MAP"', "must be one of 'MRR@100'"),
        ('name = "finetune"', 'name = "tiny"', "has the recipe's name"),
        ('name = "finetune"', 'name = "averaged"', "Rename the stage"),
        ('name = "tiny"', 'name = "averaged"', "Rename the recipe"),
        ("max_target_tokens = 32", "max_target_tokens = 32, scratch = {dim = 16}", "leave base_share out"),
        ("seed = 3", "seed = -1", "seed must be from 0"),
        ("max_tokens = 48", "max_tokens = 65", "export.max_tokens is 65, but the model has 64 positions"),
        ("mep = 1.0", "part = 0", "part must be from 1"),
        ("mep = 1.0", 'teacher = {base = "none"}', "none does not exist"),
        ("mep = 1.0", 'teacher = {base = ".", weight = 0}', "weight must be from 0.001"),
        ("mep = 1.0", 'mep = 1.0\nsda = 0.0\ntrains = "decoder"\nteacher = {base = "."}', "leave the teacher out"),
    ],
)  # fmt: skip
def test_an_invalid_recipe_is_one_error_line(
    bert: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, words: str
) -> None:
    recipe = write_recipe(tmp_path, bert, lambda text: text.replace(old, new, 1))

    with pytest.raises(SystemExit) as exit:
        command(*TRAIN, recipe, "--out", tmp_path / "out")
    printed = " ".join(capsys.readouterr().err.split())
    assert exit.value.code == 1
    assert words in printed
    assert not (tmp_path / "out").exists()


def test_a_missing_teacher_is_refused_before_the_first_stage(bert: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    text = 'depth = 5\nteacher = {base = "empty"}'
    path = write_recipe(tmp_path, bert, lambda recipe: recipe.replace("depth = 5", text))
    recipe = config.load_recipe(path, SantaRecipe, data=tmp_path)
    with pytest.raises(NotFound, match="There is no encoder in"):
        train_santa(recipe, tmp_path / "out", progress=refusing, say=refusing, cpu=True)
    assert not (tmp_path / "out").exists()


def refusing(*arguments: Any) -> Any:
    raise AssertionError("nothing is trained")


def test_missing_libraries_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name == "accelerate" else name
    )

    with pytest.raises(SystemExit):
        command(*TRAIN, tmp_path / "recipe.toml")
    printed = capsys.readouterr().err
    assert "Training needs accelerate. Run `make install-dev`" in printed
    assert "Traceback" not in printed
