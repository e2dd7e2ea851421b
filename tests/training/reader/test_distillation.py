"""Distilling a reader: alignment of tokenizers, the loss against its equation, scores in files."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from purlin.index.errors import InvalidInput, NotFound
from purlin.index.qa.reader import PackedPassage, PassageLogits, ReadingPassage
from purlin.training.config import build_recipe
from purlin.training.data.questions.reader_questions import load_questions
from purlin.training.data.questions.sources import QuestionSource
from purlin.training.data.questions.wrong_passages import Miner
from purlin.training.loop.devices import make_accelerator
from purlin.training.loop.settings import LoopSettings
from purlin.training.reader.distillation import (
    MIN_KEPT,
    aligned_distributions,
    distillation_loss,
    soft_targets,
)
from purlin.training.reader.model import HIDDEN, ReaderModel, load_reader_model
from purlin.training.reader.questions import Questions
from purlin.training.reader.recipe import ReaderExport, ReaderRecipe, TeacherSettings
from purlin.training.reader.run import train_reader
from purlin.training.reader.scores import PassageScores, ScoredQuestion, ScoreFiles
from purlin.training.reader.task import ReaderTask
from purlin.training.reader.teacher import teacher_scores
from tests.support.files import write_jsonl
from tests.support.paths import DATA
from tests.support.readers import (
    tiny_base,
    tiny_mpnet,
    tiny_reader,
    tiny_recipe,
    trained_reader,
    write_squad,
)

pytestmark = pytest.mark.usefixtures("graphs_once")

HTML = DATA / "reference"
CONTEXTS = [
    ("If step is omitted, it defaults to 1.", "1", "What is the default step of range?"),
    ("start = 0, stop = none", "0", "Which start is of a file?"),
    ("The function close closes the file.", "close", "Which function closes the file?"),
]


def scores_of(
    start: list[float], end: list[float], offsets: list[tuple[int, int]]
) -> PassageScores:
    return PassageScores(
        0.0, np.array(start, np.float32), np.array(end, np.float32), np.array(offsets, np.int32)
    )


def softmax(logits: list[float], temperature: float) -> list[float]:
    powers = [math.exp(value / temperature) for value in logits]
    return [power / sum(powers) for power in powers]


# -- alignment -----------------------------------------------------------------------------------


def test_what_the_student_does_not_read_is_left_out() -> None:
    passage = scores_of([2.0, 1.0, 0.0], [2.0, 1.0, 0.0], [(0, 3), (4, 8), (9, 12)])
    start, _ = aligned_distributions(passage, [(0, 3), (4, 8)], 1.0) or (None, None)
    kept = softmax([2.0, 1.0], 1.0)
    assert start == pytest.approx(kept, abs=1e-6)

    cut = scores_of([0.0, 1.0, 5.0], [0.0, 1.0, 5.0], [(0, 3), (4, 8), (9, 12)])
    assert aligned_distributions(cut, [(0, 3), (4, 8)], 1.0) is None
    assert aligned_distributions(passage, [], 1.0) is None


@st.composite
def tokens(draw: st.DrawFn, length: int) -> list[tuple[int, int]]:
    """Tokens of a text of `length` characters, with gaps between some of them."""
    cuts = sorted(draw(st.sets(st.integers(1, length - 1), max_size=12)))
    spans = list(zip([0, *cuts], [*cuts, length], strict=True))
    kept = [span for span in spans if draw(st.integers(0, 4))]
    return kept or spans


@given(st.data(), st.floats(0.3, 5.0))
@settings(max_examples=60)
def test_alignment_equals_a_loop_over_characters(data: st.DataObject, temperature: float) -> None:
    theirs, ours = data.draw(tokens(30)), data.draw(tokens(30))
    logits = st.lists(st.floats(-4, 4, width=32), min_size=len(theirs), max_size=len(theirs))
    start, end = data.draw(logits), data.draw(logits)

    aligned = aligned_distributions(scores_of(start, end, theirs), ours, temperature)
    expected = [
        loop_over_characters(row, theirs, ours, temperature, which)
        for which, row in ((0, start), (1, end))
    ]

    if any(sum(sums) < MIN_KEPT - 1e-6 for sums in expected):
        assert aligned is None
    elif all(sum(sums) > MIN_KEPT + 1e-6 for sums in expected):
        assert aligned is not None
        for distribution, sums in zip(aligned, expected, strict=True):
            assert distribution == pytest.approx([each / sum(sums) for each in sums], abs=1e-5)


def loop_over_characters(
    logits: list[float],
    theirs: list[tuple[int, int]],
    ours: list[tuple[int, int]],
    temperature: float,
    which: int,
) -> list[float]:
    """Give each probability to the token with the character, or to the next one inwards."""
    sums = [0.0] * len(ours)
    for probability, (first, last) in zip(softmax(logits, temperature), theirs, strict=True):
        character = last - 1 if which else first
        if last > ours[-1][1]:
            continue
        if which:
            before = [row for row, (begin, _) in enumerate(ours) if begin <= character]
            row = before[-1] if before else None
        else:
            row = next(row for row, (_, end) in enumerate(ours) if end > character)
        if row is not None:
            sums[row] += probability
    return sums


# -- loss ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("none_score", [0.0, None])
def test_the_loss_is_the_divergence_of_the_equation(none_score: float | None) -> None:
    """Two questions with two passages of uneven lengths, the last without a known span."""
    generator = torch.Generator().manual_seed(7)
    b, p, t, temperature = 2, 2, 7, 1.7
    lengths = [7, 4, 5, 3]
    starts, ends = torch.randn(2, b * p, t, generator=generator)
    selected = torch.randn(b * p, generator=generator)
    packed = [
        PackedPassage(np.arange(n), 2, tuple((k, k + 1) for k in range(n - 3))) for n in lengths
    ]
    scores = [
        PassageScores(
            float(row),
            *torch.randn(2, n - 3, generator=generator).numpy(),
            np.array([(k, k + 1) for k in range(n - 3)], np.int32).reshape(-1, 2),
        )
        for row, n in enumerate(lengths)
    ]
    for row, n in enumerate(lengths):
        for logits in (starts, ends):
            logits[row, :2] = logits[row, n - 1 :] = HIDDEN

    targets = soft_targets([scores[:2], scores[2:]], packed, t, temperature)
    losses = distillation_loss(starts, ends, selected, targets, temperature, none_score)

    none = [] if none_score is None else [none_score]
    expected = {"soft select": 0.0, "soft span": 0.0}
    for question in range(b):
        rows = range(question * p, question * p + p)
        teacher = softmax([scores[row].selected for row in rows] + none, temperature)
        student = softmax([float(selected[row]) for row in rows] + none, temperature)
        expected["soft select"] += divergence(teacher, student)
        for weight, row in zip(teacher, rows, strict=False):
            for theirs, ours in ((scores[row].start, starts), (scores[row].end, ends)):
                inside = ours[row, 2 : lengths[row] - 1].tolist()
                if inside:
                    expected["soft span"] += weight * divergence(
                        softmax(theirs.tolist(), temperature), softmax(inside, temperature)
                    )

    scale = temperature**2 / b
    assert {name: float(loss) for name, loss in losses.items()} == pytest.approx(
        {name: scale * value for name, value in expected.items()}, rel=1e-4
    )


def test_a_question_that_the_teacher_has_not_read_adds_nothing() -> None:
    generator = torch.Generator().manual_seed(3)
    starts, ends = torch.randn(2, 4, 5, generator=generator)
    selected = torch.randn(4, generator=generator)
    packed = [PackedPassage(np.arange(5), 1, ((0, 1), (1, 2), (2, 3)))] * 4
    scores = [
        [PassageScores(float(row), *np.eye(3, dtype=np.float32)[:2], np.array(packed[0].offsets))]
        for row in range(4)
    ]
    first, second = scores[0] + scores[1], scores[2] + scores[3]

    def losses(
        questions: list[list[PassageScores] | None], rows: slice = slice(None)
    ) -> dict[str, float]:
        targets = soft_targets(questions, packed[rows], 5, 2.0)
        values = distillation_loss(starts[rows], ends[rows], selected[rows], targets, 2.0, 0.0)
        return {name: float(loss) for name, loss in values.items()}

    alone = losses([second], slice(2, 4))
    assert losses([None, second]) == pytest.approx(
        {name: loss / 2 for name, loss in alone.items()}, rel=1e-5
    )
    assert losses([None, second])["soft select"] > 0
    assert losses([first, second])["soft span"] > losses([None, second])["soft span"] > 0
    assert losses([None, None]) == {"soft select": 0.0, "soft span": 0.0}


def divergence(theirs: list[float], ours: list[float]) -> float:
    return sum(p * math.log(p / q) for p, q in zip(theirs, ours, strict=True))


# -- files ---------------------------------------------------------------------------------------


def fake_logits(questions: Sequence[ScoredQuestion]) -> list[PassageLogits]:
    return [
        PassageLogits(
            PackedPassage(np.arange(length + 3), 2, tuple((k, k + 1) for k in range(length))),
            np.arange(length + 3, dtype=np.float32),
            -np.arange(length + 3, dtype=np.float32),
            float(length),
        )
        for question, passages in questions
        for length in [len(passage.text) for passage in passages]
    ]


def compute(
    directory: Path,
    digest: str,
    questions: list[ScoredQuestion],
    read: Callable[[Sequence[ScoredQuestion]], list[PassageLogits]] = fake_logits,
) -> ScoreFiles:
    files = ScoreFiles(directory, digest, questions)
    files.compute(read, make_accelerator(LoopSettings(precision="fp32"), cpu=True), progress)
    return files


def progress(*_: object) -> None:
    pass


def test_scores_are_computed_once_and_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("purlin.training.reader.scores.QUESTIONS_PER_FILE", 2)
    questions = [(str(n), [ReadingPassage("a" * n), ReadingPassage("bb")]) for n in range(5)]
    reads: list[str] = []

    def read(part: Sequence[ScoredQuestion]) -> list[PassageLogits]:
        reads.extend(text for text, _ in part)
        return fake_logits(part)

    compute(tmp_path, "digest", questions, read)
    (tmp_path / "piece-000001.npz").unlink()
    files = compute(tmp_path, "digest", questions, read)

    assert reads == ["0", "1", "2", "3", "4", "2", "3"]
    for number in range(5):
        first, second = files.of(number)
        assert (first.selected, second.selected) == (float(number), 2.0)
        assert first.start.tolist() == list(range(2, number + 2))
        assert second.end.tolist() == [-2.0, -3.0]
        assert first.offsets.tolist() == [[k, k + 1] for k in range(number)]

    with pytest.raises(InvalidInput, match="another teacher or other texts"):
        ScoreFiles(tmp_path, "another", questions)


# -- recipes and runs ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Labelled questions, and questions without labels to ask a reference."""
    directory = tmp_path_factory.mktemp("sources")
    write_squad(directory / "squad.jsonl", CONTEXTS)
    titles = ["what does weave do", "raw option", "what does weave do", ""]
    write_jsonl(directory / "asked.jsonl", ({"title": title} for title in titles))
    return directory


def unlabelled(sources: Path) -> QuestionSource:
    return QuestionSource(format="unlabelled", path=sources / "asked.jsonl", reference=HTML)


def test_unlabelled_questions_get_the_best_passages(sources: Path) -> None:
    pool, items = load_questions(unlabelled(sources), {})
    assert [item.question for item in items] == ["what does weave do", "raw option"]
    assert not any(item.labelled or item.answered for item in items)

    wrong = Miner(pool).wrong(items, 3)
    assert "weave" in pool.passages[wrong[0][0]].text


def test_unlabelled_questions_about_entries_left_out_are_dropped(tmp_path: Path) -> None:
    pool, _ = load_questions(QuestionSource(format="templates", path=HTML), {})
    entry = next(each for each in pool.entries if "#" in each)
    rows = [{"title": "one", "entry": entry}, {"title": "two"}]
    questions_path = write_jsonl(tmp_path / "questions.jsonl", rows)
    measured = {"id": "1", "question": "what", "answers": ["x"], "entry": entry, "form": "a"}
    left_out = write_jsonl(tmp_path / "measured.jsonl", [measured | {"split": "test"}])

    source = QuestionSource(
        format="unlabelled", path=questions_path, reference=HTML, leave_out=(left_out,)
    )
    assert [item.question for item in load_questions(source, {})[1]] == ["two"]


def test_a_student_learns_from_a_teacher_with_another_tokenizer(
    sources: Path, tmp_path: Path
) -> None:
    """A BERT of whole words learns what an MPNet of pieces says, against the labels."""
    teacher = tiny_reader(tmp_path / "teacher", seed=4, base=tiny_mpnet(tmp_path / "mpnet"))
    recipe = tiny_recipe(
        tiny_base(tmp_path / "base"),
        sources / "squad.jsonl",
        teacher=TeacherSettings(base=str(teacher), passages=2, weight=30.0),
        loop=LoopSettings(batch_size=3, steps=40, learning_rate=3e-3, every=40, precision="fp32"),
        export=ReaderExport(quantization="none"),
    )
    steps: dict[str, list[int]] = {"teacher": [], "reader": []}

    def note(name: str):  # type: ignore[no-untyped-def]
        return lambda number, total, values: steps[name].append(number)

    directory = train_reader(recipe, tmp_path / "out", progress=note, say=str, cpu=True)

    assert (steps["teacher"], len(steps["reader"])) == ([3], 40)
    assert (directory / "reader.json").is_file()
    lines = (tmp_path / "out/reader/metrics.jsonl").read_text().splitlines()
    first, last = json.loads(lines[0]), json.loads(lines[-1])
    assert {"select", "soft select", "soft span"} <= first.keys()
    assert last["soft span"] < 0.5 * first["soft span"]

    changed = replace(recipe, questions=2 * recipe.questions)
    with pytest.raises(InvalidInput, match="another teacher"):
        train_reader(changed, tmp_path / "out", progress=note, say=str, cpu=True)


def own_teacher(sources: Path, directory: Path, **keys: object) -> tuple[ReaderRecipe, ReaderModel]:
    """A recipe whose teacher is the student itself, and that student."""
    teacher = tiny_reader(directory, seed=5)
    settings = TeacherSettings(base=str(teacher), passages=2)
    recipe = tiny_recipe(directory / "base", sources, teacher=settings, **keys)
    return recipe, load_reader_model(recipe.model, directory / "checkpoint").eval()


def test_without_labels_only_the_teacher_counts(sources: Path, tmp_path: Path) -> None:
    recipe, student = own_teacher(
        sources,
        tmp_path,
        questions=(unlabelled(sources),),
        loop=LoopSettings(batch_size=2, precision="fp32"),
    )
    pool, items = load_questions(unlabelled(sources), {})
    questions = Questions(pool, items, Miner(pool).wrong(items, 2))
    accelerator = make_accelerator(recipe.loop, cpu=True)
    scores = teacher_scores(recipe, [questions], tmp_path / "scores", accelerator, progress)

    task = ReaderTask(student, [questions], recipe, accelerator, scores=scores)
    losses = task.backward(task.batch(0))
    assert [losses[name] for name in ("select", "span")] == [0.0, 0.0]
    # It is its own teacher here.
    assert losses["loss"] == pytest.approx(0.0, abs=1e-5)

    student.head.weight.data += torch.randn_like(student.head.weight)
    assert task.backward(task.batch(0))["loss"] > 0.01


def test_a_source_that_is_not_distilled_keeps_its_labels_alone(
    sources: Path, tmp_path: Path
) -> None:
    """A model that is its own teacher: any other question's scores would be a loss."""
    squad = QuestionSource(format="squad", path=sources / "squad.jsonl", distilled=False)
    recipe, student = own_teacher(
        sources,
        tmp_path,
        questions=(squad, unlabelled(sources)),
        loop=LoopSettings(batch_size=5, precision="fp32"),
    )
    mined = [
        Questions(pool, items, Miner(pool).wrong(items, 3), source.distilled)
        for source in recipe.questions
        for pool, items in [load_questions(source, {})]
    ]
    labelled_count, distilled_count = (len(questions.items) for questions in mined)

    accelerator = make_accelerator(recipe.loop, cpu=True)
    scores = teacher_scores(recipe, mined, tmp_path / "s", accelerator, progress)
    assert scores is not None
    assert len(scores.questions) == distilled_count

    task = ReaderTask(student, mined, recipe, accelerator, scores=scores)
    batch = task.batch(0)
    assert sorted(batch.rows) == list(range(labelled_count + distilled_count))
    assert batch.soft is not None
    assert batch.soft.has_scores.tolist() == [row >= labelled_count for row in batch.rows]

    losses = task.backward(batch)
    assert losses["soft select"] + losses["soft span"] == pytest.approx(0.0, abs=1e-5)
    assert losses["select"] > 0


def test_a_teacher_that_is_no_reader_is_refused(sources: Path, tmp_path: Path) -> None:
    base = tiny_base(tmp_path / "base")
    recipe = tiny_recipe(
        base,
        sources / "squad.jsonl",
        teacher=TeacherSettings(base=str(base), passages=2),
        loop=LoopSettings(batch_size=3, precision="fp32"),
    )
    with pytest.raises(NotFound, match=r"teacher\.base: there is no reader in") as error:
        trained_reader(recipe, tmp_path / "out")
    assert error.value.field == "teacher.base"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"teacher": {"base": "x", "temperature": 0.0}},
            r"teacher: temperature must be from 0\.01",
        ),
        ({"teacher": {"base": "x", "weight": -1.0}}, "teacher: weight must be"),
        ({"teacher": {"base": ""}}, "teacher: Name the reader"),
        ({"teacher": {}}, r"'teacher\.base' is missing"),
        ({"teacher": {"base": "x", "heat": 2}}, r"Unknown key 'teacher\.heat'"),
        ({"teacher": {"base": "x", "passages": 21}}, r"teacher\.passages must be from 4 to 20"),
        ({"questions": "unlabelled"}, r"the recipe has no \[teacher\]"),
        ({"dev": "unlabelled", "teacher": {"base": "x"}}, "nothing can be measured"),
        ({"name": "teacher"}, "Rename the recipe"),
        (
            {
                "questions": [{"format": "squad", "path": "squad.jsonl", "distilled": False}],
                "teacher": {"base": "x"},
            },
            r"every \[\[questions\]\] has distilled = false",
        ),
        (
            {
                "questions": [
                    {
                        "format": "unlabelled",
                        "path": "asked.jsonl",
                        "reference": str(HTML),
                        "distilled": False,
                    }
                ],
                "teacher": {"base": "x"},
            },
            "no teacher reads",
        ),
    ],
)
def test_recipes_with_unusable_teachers_are_refused(
    changes: dict[str, object], message: str, sources: Path
) -> None:
    without_labels = [{"format": "unlabelled", "path": "asked.jsonl", "reference": str(HTML)}]
    content = {"name": "student", "questions": [{"format": "squad", "path": "squad.jsonl"}]}
    content |= {
        key: without_labels if value == "unlabelled" else value for key, value in changes.items()
    }
    with pytest.raises(InvalidInput, match=message):
        build_recipe(ReaderRecipe, content, root=sources)
