"""Training the reader: its questions, loss and batches, whole runs, and exports."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from scipy.special import softmax
from sentence_transformers import SentenceTransformer

from purlin import cli
from purlin.index.encoder import STATIC_ENCODER, TRANSFORMER_ENCODER, TextEncoder, Vectors
from purlin.index.encoder.transformer import Encoder
from purlin.index.errors import Damaged, InvalidInput, NotFound
from purlin.index.qa.reader import RELEASED_READER, Packer, Reader, ReadingPassage
from purlin.index.qa.reader_settings import READER_SETTINGS
from purlin.index.records import Role
from purlin.training.config import read_toml
from purlin.training.data.questions.reader_questions import (
    PassagePool,
    Pools,
    TrainingQuestion,
    balanced,
    load_questions,
)
from purlin.training.data.questions.sources import QuestionSource
from purlin.training.data.questions.wrong_passages import Miner
from purlin.training.exporting.checks import ExportRefused
from purlin.training.exporting.encoder import export_encoder
from purlin.training.exporting.model_card import Card
from purlin.training.loop.devices import make_accelerator
from purlin.training.loop.settings import LoopSettings
from purlin.training.models.restore import HEAD
from purlin.training.reader.export import export_reader
from purlin.training.reader.losses import reading_loss
from purlin.training.reader.model import HIDDEN, load_reader_model
from purlin.training.reader.questions import Questions, read_source_questions
from purlin.training.reader.recipe import ReaderExport, ReaderRecipe, ReadingSettings
from purlin.training.reader.task import ReaderTask, hidden, token_spans
from tests.support.cross_encoders import READING_WORDS
from tests.support.files import write_jsonl
from tests.support.paths import DATA, ROOT
from tests.support.readers import (
    read_answers,
    tiny_base,
    tiny_mpnet,
    tiny_recipe,
    trained_reader,
    write_squad,
)
from tests.support.tiny import save_bert
from tests.support.training_runs import load_without_data

pytestmark = pytest.mark.usefixtures("graphs_once")

HTML = DATA / "reference"
TWO_STEPS = LoopSettings(batch_size=4, steps=2, every=2, learning_rate=1e-2, precision="fp32")
CONTEXTS = [
    ("If step is omitted, it defaults to 1.", "1", "What is the default step of range?"),
    ("start = 0, stop = none", "0", "Which start is of a file?"),
    ("The function close closes the file.", "close", "Which function closes the file?"),
    ("If start is none, return none.", None, "Which function is the default?"),
]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_base(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def squad(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = write_squad(tmp_path_factory.mktemp("squad") / "squad.jsonl", CONTEXTS)
    with path.open("a") as file:
        # Its passage is read, but has no such answer; the other row is no question.
        file.write('{"question": "What?", "context": "a", "answers": [')
        file.write('{"text": "b", "answer_start": 0}]}\n{"question": 3}\n')
    return path


def questions_of(squad: Path) -> Questions:
    pool, items = load_questions(QuestionSource(format="squad", path=squad), {})
    wrong = np.array(
        [[row for row in range(4) if row != item.passage][:2] for item in items], dtype=np.int32
    )
    return Questions(pool, items, wrong)


def task_of(base: Path, squad: Path, **keys: object) -> ReaderTask:
    loop = LoopSettings(batch_size=4, precision="fp32")
    recipe = tiny_recipe(base, squad, loop=loop, **keys)
    torch.manual_seed(1)

    model, accelerator = load_reader_model(recipe.model), make_accelerator(loop, cpu=True)
    return ReaderTask(model, [questions_of(squad)], recipe, accelerator)


# -- sources -------------------------------------------------------------------------------------


def test_squad_gives_spans_and_unanswerable_questions(squad: Path) -> None:
    pool, items = load_questions(QuestionSource(format="squad", path=squad), {})
    assert [item.answers(pool) for item in items] == [["1"], ["0"], ["close"], []]
    assert [item.answered for item in items] == [True, True, True, False]
    assert len(pool.passages) == 5  # also that of the row whose answer is not in it


def test_templates_give_spans_in_served_passages() -> None:
    pools: Pools = {}
    source = QuestionSource(format="templates", path=HTML)
    pool, items = load_questions(source, pools)

    assert pools[HTML, None] is pool
    assert len(items) >= 3
    for item in items:
        assert item.answers(pool)
        assert item.question.strip()
    assert load_questions(source, pools)[0] is pool


def test_forms_of_questions_are_balanced() -> None:
    forms = ["term"] * 50 + ["version"] * 5 + ["default"] * 2
    items = [
        TrainingQuestion(f"{form} {number}?", number, form=form)
        for number, form in enumerate(forms)
    ]
    kept = list(balanced(items))
    assert [item.form for item in kept] == ["term"] * 3 + ["version"] * 5 + ["default"] * 2
    assert kept[:3] == items[:3]
    assert list(balanced(items[:50])) == items[:50]
    assert list(balanced([])) == []


def test_linked_questions_are_answered_by_the_entrys_term(tmp_path: Path) -> None:
    pool, _ = load_questions(QuestionSource(format="templates", path=HTML), {})
    entry = next(
        entry
        for entry, item in zip(pool.entries, pool.passages, strict=True)
        if "(" in item.text and "#" in entry
    )
    rows = [
        {"title": "how do I do this", "question": "I tried.", "entry": entry},
        {"title": "elsewhere", "question": "", "entry": "no.html#where"},
    ]
    path = write_jsonl(tmp_path / "linked.jsonl", rows)
    pool, (item,) = load_questions(QuestionSource(format="linked", path=path, reference=HTML), {})

    assert pool.entries[item.passage] == entry
    (answer,) = item.answers(pool)
    assert answer.replace("_", "-").lower() in entry.lower()


def test_a_question_set_leads_to_the_words_of_its_entry(tmp_path: Path) -> None:
    """The answer is the first that occurs as a word; rows without answer and entry are dropped."""
    pool, _ = load_questions(QuestionSource(format="templates", path=HTML), {})
    row = next(
        row
        for row, item in enumerate(pool.passages)
        if "weave" in item.text and "#" in pool.entries[row]
    )
    rows = [
        {"answers": ["eave", "weave"], "entry": pool.entries[row], "split": "train"},
        {"answers": ["weave"], "entry": pool.entries[row], "split": "test"},
        {"answers": ["nowhere to be found"], "entry": pool.entries[row], "split": "train"},
        {"answers": ["weave"], "entry": "no.html#where", "split": "train"},
        {"answers": [], "entry": None, "split": "train"},
        {"answers": [], "entry": None, "split": "train", "about": pool.entries[row]},
        {"answers": [], "entry": None, "split": "train", "about": "no.html#where"},
    ]
    path = tmp_path / "asked.jsonl"
    texts = [
        {"id": str(n), "question": f"question {n}", "form": "module", **row}
        for n, row in enumerate(rows)
    ]
    write_jsonl(path, texts)
    pool, (item, none) = load_questions(
        QuestionSource(format="questions", path=path, reference=HTML), {}
    )

    assert (none.question, none.answered, none.answers(pool)) == ("question 5", False, [])
    assert pool.entries[none.passage] == rows[0]["entry"]
    assert (item.question, item.answers(pool)[0], item.form) == ("question 0", "weave", "module")
    assert pool.entries[item.passage] == rows[0]["entry"]


def test_answers_are_searched_in_all_documents_of_an_entry(tmp_path: Path) -> None:
    answers = {
        "A heddle holds what?": "thread",
        "dry run does": "nothing",
        "-o writes to": "FILE",
        "raw?": "raw",
    }
    common = {"entry": "markup/api.rst#terms", "form": "module", "split": "train"}
    rows = (
        {"id": question, "question": question, "answers": [answer], **common}
        for question, answer in answers.items()
    )
    path = write_jsonl(tmp_path / "asked.jsonl", rows)
    pool, items = load_questions(QuestionSource(format="questions", path=path, reference=HTML), {})

    assert {item.question: item.answers(pool)[0] for item in items} == answers
    assert len({item.passage for item in items}) == 4


def test_every_place_of_every_accepted_answer_counts(tmp_path: Path) -> None:
    manual = tmp_path / "manual.md"
    manual.write_text(
        "# keep\n\nKeep 14 days, 14 by default. Not 141; fourteen days are two weeks.\n"
    )
    answers = ["14 days", "14", "two weeks", "not there"]
    row = {"id": "1", "question": "How long?", "answers": answers, "entry": "manual.md#keep"}
    row |= {"form": "default value", "split": "train"}
    path = write_jsonl(tmp_path / "asked.jsonl", [row])
    source = QuestionSource(format="questions", path=path, reference=manual)
    pool, (item,) = load_questions(source, {})

    text = pool.passages[item.passage].text
    assert [(text[start:end], start) for start, end in item.spans] == [
        ("14 days", text.index("14 days")),
        ("14", text.index("14 days")),
        ("14", text.index("14 by")),
        ("two weeks", text.index("two weeks")),
    ]


def test_sources_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="reference"):
        QuestionSource(format="linked", path=tmp_path)

    with pytest.raises(InvalidInput, match="reference"):
        QuestionSource(format="squad", path=tmp_path, reference=tmp_path)
    with pytest.raises(NotFound, match="none"):
        load_questions(QuestionSource(format="squad", path=tmp_path / "none"), {})
    (tmp_path / "empty.jsonl").write_text("{}\n")
    with pytest.raises(InvalidInput, match="no usable question"):
        load_questions(QuestionSource(format="squad", path=tmp_path / "empty.jsonl"), {})

    (tmp_path / "manual").mkdir()
    (tmp_path / "manual" / "a.html").write_text("<h1>A kettle</h1><p>It boils water.</p>")
    with pytest.raises(InvalidInput, match=r"none of its entries gives one .* 'train'"):
        load_questions(QuestionSource(format="templates", path=tmp_path / "manual"), {})


FILE_TEXTS = [
    "open a file",
    "opens the file for reading",
    "close a socket",
    "the file was opened",
    "numbers",
]


def test_mined_passages_are_of_other_entries() -> None:
    """The last passage is a copy of the first, as on a page with the whole manual."""
    texts = [*FILE_TEXTS, FILE_TEXTS[0]]
    entries = ["one", "two", "three", "one", "four", "all"]
    pool = PassagePool([ReadingPassage(text) for text in texts], entries)
    items = [
        TrainingQuestion("how to open a file", 0),
        TrainingQuestion("close the socket", 2),
        TrainingQuestion("open", 4),
    ]
    mined = Miner(pool).wrong(items, 3)

    assert mined[0].tolist() == [1, 1, 1]
    assert mined[1].tolist() == [3, 4, 5]
    assert set(mined[2]) <= {0, 1, 3, 5}


def test_an_encoder_mines_the_nearest_passages_too(encoder: TextEncoder) -> None:
    texts = FILE_TEXTS
    pool = PassagePool([ReadingPassage(text) for text in texts], [*"abcde"])
    items = [TrainingQuestion("how to open a file", 0), TrainingQuestion("close the socket", 2)]
    mined = Miner(pool, encoder).wrong(items, 2)

    assert mined[:, ::2].tolist() == Miner(pool).wrong(items, 2).tolist()
    for row, item in enumerate(items):
        cosines = (
            encoder.encode(texts, role="passage") @ encoder.encode([item.question], role="query")[0]
        )
        cosines[item.passage] = -1.0
        assert sorted(cosines[mined[row, 1::2]]) == sorted(np.sort(cosines)[-2:])


def test_a_resumed_run_encodes_no_passage_again(
    base: Path, squad: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mining the passages of whole manuals takes longer than many a training."""
    SentenceTransformer(str(save_bert(tmp_path / "bert")), device="cpu").save(
        str(tmp_path / "checkpoint")
    )
    directory = tmp_path / "encoder"
    export_encoder(tmp_path / "checkpoint", directory, Card("tiny"), quantization="none")
    reading = ReadingSettings(passages=2, depth=2, max_tokens=40, encoder=str(directory))
    recipe = tiny_recipe(base, squad, reading=reading)
    encoded: list[str] = []
    encode = Encoder.encode

    def counting(self: Encoder, texts: Sequence[str], *, role: Role, **keys: Any) -> Vectors:
        encoded.extend(texts if role == "passage" else ())
        return encode(self, texts, role=role, **keys)

    monkeypatch.setattr(Encoder, "encode", counting)
    kept = tmp_path / "passages"
    encoded_counts: list[tuple[int, int]] = []
    [first], _ = read_source_questions(
        recipe, kept, lambda number, total, values: encoded_counts.append((number, total))
    )
    assert len(encoded) == len(first.pool.passages) == 5
    assert encoded_counts == [(5, 5)]

    encoded.clear()
    [again], _ = read_source_questions(recipe, kept, lambda *step: None)
    assert encoded == []
    assert again.wrong.tolist() == first.wrong.tolist()


def test_a_static_encoder_finds_wrong_passages_too(base: Path, squad: Path, tmp_path: Path) -> None:
    by_encoder = []
    for encoder in (STATIC_ENCODER, TRANSFORMER_ENCODER):
        reading = ReadingSettings(passages=2, depth=2, max_tokens=40, encoder=str(encoder))
        recipe = tiny_recipe(base, squad, reading=reading)
        [questions], _ = read_source_questions(recipe, tmp_path / encoder.name, lambda *step: None)
        by_encoder.append(questions.wrong)

    # Those by BM25 are the same; both encoders add as many of their own.
    static, transformer = by_encoder
    assert static.shape == transformer.shape == (len(questions.items), 4)
    assert static[:, ::2].tolist() == transformer[:, ::2].tolist()


# -- loss ----------------------------------------------------------------------------------------


def test_the_loss_equals_the_papers_equations() -> None:
    generator = torch.Generator().manual_seed(5)
    b, p, t = 4, 3, 6
    starts, ends = torch.randn(2, b * p, t, generator=generator, dtype=torch.float64)
    selected = torch.randn(b * p, generator=generator, dtype=torch.float64)
    right, spans = torch.tensor([1, 0, 1, 1]), torch.tensor([[2, 4], [-1, -1], [0, 0], [-1, -1]])
    expected = {"select": 0.0, "span": 0.0}
    for question in range(b):
        scores = [0.0, *selected[question * p : (question + 1) * p].tolist()]
        expected["select"] -= (
            math.log(math.exp(scores[right[question]]) / sum(map(math.exp, scores))) / b
        )
        if spans[question][0] >= 0:
            row = question * p + int(right[question]) - 1
            for logits, end_number in ((starts, 0), (ends, 1)):
                powers = [math.exp(value) for value in logits[row].tolist()]
                expected["span"] -= math.log(powers[spans[question][end_number]] / sum(powers)) / b
    losses = reading_loss(starts, ends, selected, right, spans[:, None])

    assert {name: float(value) for name, value in losses.items()} == pytest.approx(
        expected, rel=1e-6
    )


def test_of_several_answers_the_sum_of_their_probabilities_counts() -> None:
    generator = torch.Generator().manual_seed(7)
    starts, ends = torch.randn(2, 2, 5, generator=generator, dtype=torch.float64)
    starts.requires_grad_()
    right, none = torch.tensor([1, 1]), [-1, -1]
    spans = torch.tensor([[[0, 1], [3, 3], [2, 4]], [[1, 1], none, none]])
    expected = 0.0
    for question in range(2):
        first, last = (torch.softmax(logits[question].detach(), 0) for logits in (starts, ends))
        likelihood = sum(
            float(first[start] * last[end]) for start, end in spans[question] if start >= 0
        )
        expected -= math.log(likelihood) / 2
    loss = reading_loss(starts, ends, torch.zeros(2, dtype=torch.float64), right, spans)["span"]
    assert float(loss.detach()) == pytest.approx(expected, rel=1e-6)

    no_answer = reading_loss(starts, ends, torch.zeros(2), right, torch.full((2, 3, 2), -1))["span"]
    no_answer.backward()
    assert float(no_answer.detach()) == 0.0
    assert starts.grad is not None
    assert not starts.grad.any()


def test_token_spans_of_answers(base: Path, squad: Path) -> None:
    task = task_of(base, squad)
    passage = ReadingPassage("If step is omitted, it defaults to 1.", "range")
    (packed,) = task.packer.pack("What is it?", [passage])
    ((first, last),) = token_spans(packed, passage, TrainingQuestion("", 0, ((23, 36),)))
    text = "range\n" + passage.text
    read = [text[slice(*packed.offsets[token - packed.first])] for token in (first, last)]

    assert read == ["defaults", "1"]
    assert token_spans(packed, passage, TrainingQuestion("", 0)) == [(-1, -1)]

    # Spans of the same tokens are one, and one that the passage does not have is left out.
    several = TrainingQuestion("", 0, ((23, 36), (24, 36), (35, 36), (90, 91)))
    assert token_spans(packed, passage, several) == [(first, last), (last, last)]

    far = ReadingPassage("the " * 90 + "step")
    (cut,) = task.packer.pack("What is it?", [far])
    assert token_spans(cut, far, TrainingQuestion("", 0, ((360, 364),))) == [(-1, -1)]
    allowed = hidden([packed], 40)[0]
    assert allowed.logical_not().nonzero().flatten().tolist() == list(
        range(packed.first, packed.first + len(packed.offsets))
    )


def test_batches_leave_out_a_share_of_the_answers(base: Path, squad: Path) -> None:
    task = task_of(
        base, squad, reading=ReadingSettings(passages=2, depth=2, max_tokens=64, missing=0.5)
    )
    batches = [task.batch(number) for number in range(40)]
    again = task.batch(7)

    assert torch.equal(batches[7].ids, again.ids)
    assert torch.equal(batches[7].spans, again.spans)

    right = torch.cat([batch.right for batch in batches])
    answered = 3 / 4
    assert (right > 0).float().mean() == pytest.approx(answered * 0.5, abs=0.12)
    for batch in batches:
        assert batch.ids.shape[0] == 8
        assert ((batch.spans[:, 0, 0] >= 0) <= (batch.right > 0)).all()


def test_groups_of_similar_length_give_the_same_logits(base: Path, squad: Path) -> None:
    task = task_of(base, squad)
    batch = task.batch(0)
    task.model.eval()
    with torch.no_grad():
        grouped = task._logits(batch.ids, batch.mask)
        whole = task.model(batch.ids, batch.mask)

    for grouped_logits, whole_logits in zip(grouped[:2], whole[:2], strict=True):
        visible = batch.mask.bool() & (grouped_logits > HIDDEN)
        torch.testing.assert_close(
            grouped_logits[visible], whole_logits[visible], rtol=1e-4, atol=1e-4
        )
    torch.testing.assert_close(grouped[2], whole[2], rtol=1e-4, atol=1e-4)


def test_processes_draw_the_batch_that_a_single_one_would(base: Path, squad: Path) -> None:
    task = task_of(base, squad)
    whole, rows = task.drawn(3)
    for process in range(2):
        task.accelerator = cast(Any, SimpleNamespace(process_index=process, num_processes=2))
        part, part_rows = task.drawn(3)
        assert part_rows.tolist() == rows[process::2].tolist()
        assert [(drawn.number, drawn.positions) for drawn in part] == [
            (drawn.number, drawn.positions) for drawn in whole[process::2]
        ]


def test_wrong_passages_are_drawn_once(base: Path, squad: Path) -> None:
    reading = ReadingSettings(passages=3, depth=3, missing=0.0, max_tokens=64)
    task = task_of(base, squad, reading=reading)
    source = replace(task.sources[0], wrong=np.array([[1, 2, 2, 1], [0, 3, 3, 3], *[[4] * 4] * 2]))
    for seed in range(20):
        for number, others in ((0, {1, 2}), (1, {0, 3})):
            positions = task._positions(source, number, random.Random(seed), with_own=True)
            rows = source.candidates(number, 5)
            assert {rows[position] for position in positions[1:]} == others
    # Where there are too few, they are repeated.
    assert len(task._positions(source, 2, random.Random(1), with_own=True)) == 3


# -- whole runs ----------------------------------------------------------------------------------


def test_a_trained_reader_answers_what_it_was_trained_on(
    base: Path, squad: Path, tmp_path: Path
) -> None:
    recipe = tiny_recipe(
        base,
        squad,
        dev=(QuestionSource(format="squad", path=squad, limit=3),),
        loop=LoopSettings(batch_size=4, steps=80, learning_rate=3e-3, every=40, precision="fp32"),
        export=ReaderExport(quantization="none", trained_on=("four questions",)),
    )
    lines: list[str] = []
    directory = trained_reader(recipe, tmp_path, lines.append)

    assert lines[0] == "device: cpu, 1 process"
    assert lines[1].startswith("squad.jsonl (squad, train): 4 questions")

    served = Reader.load(directory, threads=1)
    passages = [ReadingPassage(context) for context, _, _ in CONTEXTS]
    for context, answer, question in CONTEXTS[:3]:
        best = read_answers(served, question, passages, k=1).answers[0]
        assert (passages[best.passage].text, context[best.start : best.end]) == (context, answer)
    answerable = read_answers(served, CONTEXTS[0][2], passages).answerable
    unanswerable = read_answers(served, CONTEXTS[3][2], passages).answerable
    assert answerable > unanswerable
    card = (directory / "README.md").read_text()
    assert "four questions" in card
    assert "dev exact" in card
    assert trained_reader(recipe, tmp_path) == directory

    kept = squad.read_text()
    squad.write_text(kept.replace("step is omitted", "step is missing"))
    with pytest.raises(InvalidInput, match="other texts"):
        trained_reader(recipe, tmp_path)
    squad.write_text(kept)


def test_sequences_longer_than_the_positions_are_refused(
    base: Path, squad: Path, tmp_path: Path
) -> None:
    reading = ReadingSettings(passages=2, depth=2, max_tokens=129)
    recipe = tiny_recipe(
        base, squad, reading=reading, loop=LoopSettings(batch_size=4, precision="fp32")
    )

    with pytest.raises(InvalidInput, match="max_tokens is 129, but the model has 128 positions"):
        trained_reader(recipe, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_reader_of_fewer_layers_begins_with_the_head_of_its_base(
    base: Path, squad: Path, tmp_path: Path
) -> None:
    whole = load_reader_model(tiny_recipe(base, squad).model)
    whole.save(tmp_path / "whole")
    settings = replace(tiny_recipe(base, squad).model, base=str(tmp_path / "whole"), layers=1)
    student = load_reader_model(settings)
    assert len(cast(Any, student.transformer).encoder.layer) == 1
    assert torch.equal(student.head.weight, whole.head.weight)

    student.save(tmp_path / "student")
    again = load_reader_model(settings, tmp_path / "student")
    assert again.state_dict().keys() == student.state_dict().keys()


def test_a_damaged_head_is_named(base: Path, squad: Path, tmp_path: Path) -> None:
    recipe = tiny_recipe(base, squad)
    load_reader_model(recipe.model).save(tmp_path)
    content = (tmp_path / HEAD).read_bytes()
    for torn in (content[:20], content[:-4]):
        (tmp_path / HEAD).write_bytes(torn)
        with pytest.raises(Damaged, match=HEAD):
            load_reader_model(recipe.model, tmp_path)
    (tmp_path / HEAD).unlink()

    with pytest.raises(Damaged, match=HEAD):
        load_reader_model(recipe.model, tmp_path)


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        (ReaderExport, {"prior_weight": math.nan}, "prior_weight"),
        (ReaderExport, {"calibration": (1.0, 1.0, math.inf, 1.0, 1.0)}, "calibration"),
        (ReaderExport, {"calibration": (1.0,)}, "six numbers"),
        (ReadingSettings, {"passages": 1}, "passages"),
        (tiny_recipe, {"name": "reader"}, "Rename the recipe"),
        (tiny_recipe, {"seed": -1}, "seed"),
        (tiny_recipe, {"questions": ()}, "questions"),
    ],
)
def test_settings_out_of_range_are_refused(
    base: Path, squad: Path, kind: Any, changes: dict[str, Any], message: str
) -> None:
    directories = (base, squad) if kind is tiny_recipe else ()
    with pytest.raises(InvalidInput, match=message):
        kind(*directories, **changes)


@pytest.mark.usefixtures("one_process")
def test_the_command_makes_a_reader_of_a_recipe(
    base: Path,
    squad: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "recipe.toml").write_text(
        f"""name = "tiny"
        questions = [{{format = "squad", path = "{squad.name}"}}]
        model = {{base = "{base}", max_query_tokens = 16, max_passage_tokens = 64, max_target_tokens = 16}}
        reading = {{passages = 2, depth = 2, max_tokens = 64}}
        loop = {{batch_size = 4, steps = 2, every = 2}}
        export = {{quantization = "none"}}
        """
    )
    arguments = f"--config recipe.toml --data {squad.parent} --out out --cpu"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["purlin", "train", "refqa", *arguments.split()])
    monkeypatch.setattr("signal.signal", lambda *_: None)

    with pytest.raises(SystemExit) as exit_info:
        cli.main()

    printed = capsys.readouterr()
    assert exit_info.value.code in (0, None), printed.err
    assert "PURLIN_READER=" in printed.out
    state = json.loads((tmp_path / "out/reader/step-000002/training.json").read_text())["state"]
    assert f"precision: {state['precision']['1']} (bf16 is " in printed.err
    assert Reader.load(tmp_path / "out" / "tiny", threads=1).name == "tiny"


def test_export_refuses_a_graph_that_differs(
    base: Path, squad: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = tiny_recipe(base, squad, export=ReaderExport(quantization="none"))
    load_reader_model(recipe.model).save(tmp_path / "checkpoint")
    monkeypatch.setattr("purlin.training.reader.export.MAX_LOGIT_DIFFERENCE", 0.0)
    with pytest.raises(ExportRefused, match="differ"):
        export_reader(recipe, tmp_path / "checkpoint", tmp_path / "out", [np.arange(4, 20)])
    assert not (tmp_path / "out").exists()


def test_a_readers_checkpoint_keeps_its_head_as_a_base(
    base: Path, squad: Path, tmp_path: Path
) -> None:
    """Another base gets a new head; the card names the model behind the checkpoint."""
    recipe = tiny_recipe(base, squad)
    first = load_reader_model(recipe.model)
    first.save(tmp_path / "checkpoint")
    again = replace(recipe, model=replace(recipe.model, base=str(tmp_path / "checkpoint")))

    for name, weight in load_reader_model(again.model).state_dict().items():
        torch.testing.assert_close(weight, first.state_dict()[name], rtol=0, atol=0)
    assert not torch.equal(load_reader_model(recipe.model).head.weight, first.head.weight)

    export = ReaderExport(quantization="none", base_model="some/model")
    export_reader(
        replace(again, export=export), tmp_path / "checkpoint", tmp_path / "out", [np.arange(4, 20)]
    )
    assert "**Base model**: some/model" in (tmp_path / "out" / "README.md").read_text()


def test_a_share_of_the_base_is_mixed_in(base: Path, squad: Path, tmp_path: Path) -> None:
    """The base has to be a reader, and the card has the measures of what is exported."""
    torch.manual_seed(3)
    first = load_reader_model(tiny_recipe(base, squad).model)
    first.save(tmp_path / "first")
    recipe = tiny_recipe(
        tmp_path / "first",
        squad,
        dev=(QuestionSource(format="squad", path=squad, limit=3),),
        loop=TWO_STEPS,
        export=ReaderExport(quantization="none", base_share=0.25),
    )
    directory = trained_reader(recipe, tmp_path / "out")

    own, mixed = (
        load_reader_model(recipe.model, tmp_path / "out" / checkpoint).state_dict()
        for checkpoint in ("reader/step-000002", "averaged")
    )
    for name, weight in first.state_dict().items():
        torch.testing.assert_close(mixed[name], 0.75 * own[name] + 0.25 * weight)
    assert not torch.equal(mixed["head.weight"], own["head.weight"])
    assert "dev exact" in (directory / "README.md").read_text()

    with pytest.raises(InvalidInput, match="is not a reader"):
        trained_reader(
            replace(recipe, model=replace(recipe.model, base=str(base))), tmp_path / "other"
        )


def test_eight_bits_answer_alike(base: Path, squad: Path, tmp_path: Path) -> None:
    torch.manual_seed(3)
    recipe = tiny_recipe(base, squad, export=ReaderExport(quantization="none"))
    load_reader_model(recipe.model).save(tmp_path / "checkpoint")
    samples = [np.random.default_rng(n).integers(4, len(READING_WORDS), n) for n in (8, 15, 40, 60)]
    full = export_reader(recipe, tmp_path / "checkpoint", tmp_path / "none", samples)

    recipe = replace(recipe, export=ReaderExport(quantization="int8"))
    eight = export_reader(recipe, tmp_path / "checkpoint", tmp_path / "int8", samples)

    passages = [ReadingPassage(context) for context, _, _ in CONTEXTS]
    exact, quantized = (
        read_answers(each, "What is the default step?", passages) for each in (full, eight)
    )
    np.testing.assert_allclose(exact.relevance, quantized.relevance, atol=0.05)


def test_the_packer_needs_its_special_tokens(base: Path) -> None:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel

    with pytest.raises(ValueError, match="CLS"):
        Packer(Tokenizer(WordLevel({"a": 0}, "a")), 32)


def test_the_recipe_in_the_manual_is_valid(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "qa.md").read_text()
    content = page.split("```toml\n", 1)[1].split("```", 1)[0]
    (tmp_path / "own.toml").write_text(content)
    recipe = load_without_data(tmp_path / "own.toml", ReaderRecipe, tmp_path)
    assert [source.format for source in recipe.questions] == ["templates", "questions"]
    assert (ROOT / recipe.model.base / "reader.json").is_file()


# -- bodies that are no BERT ---------------------------------------------------------------------


def test_special_tokens_are_those_that_the_tokenizer_puts_around_two_texts(
    base: Path, tmp_path: Path
) -> None:
    """MPNet's vocabulary has BERT's [CLS] and [SEP] as words without a meaning."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_mpnet(tmp_path / "mpnet"))
    packer = Packer(tokenizer.backend_tokenizer, 64)
    (packed,) = packer.pack("the step", [ReadingPassage("it stops")])
    assert packed.ids.tolist() == tokenizer("the step", "it stops")["input_ids"]
    assert tokenizer.decode(packed.ids[[0, packed.first - 1, -1]]) == "<s> </s> </s>"

    bert = AutoTokenizer.from_pretrained(base)
    (packed,) = Packer(bert.backend_tokenizer, 64).pack("the step", [ReadingPassage("it")])
    assert " ".join(bert.convert_ids_to_tokens(packed.ids)) == "[CLS] the step [SEP] it [SEP]"


def test_an_mpnet_is_trained_exported_and_served(squad: Path, tmp_path: Path) -> None:
    """Relative positions, no token types, and positions that begin after padding's."""
    recipe = tiny_recipe(tiny_mpnet(tmp_path / "mpnet"), squad, loop=TWO_STEPS)
    directory = trained_reader(recipe, tmp_path / "out")

    served = Reader.load(directory, threads=1)
    passages = [ReadingPassage(context) for context, _, _ in CONTEXTS]
    model = load_reader_model(recipe.model, tmp_path / "out/reader/step-000002").eval()
    for logits in served.read("What is the default step of range?", passages):
        with torch.inference_mode():
            starts, ends, _ = model(torch.from_numpy(logits.packed.ids)[None])
        for graph, expected in ((logits.start, starts[0]), (logits.end, ends[0])):
            overlap = np.minimum(softmax(graph), expected.softmax(0).numpy()).sum()
            assert overlap > 0.95


# -- shipped recipes -----------------------------------------------------------------------------

CONFIGS = ROOT / "configs"
RECIPES = [path for path in CONFIGS.glob("refqa-*.toml") if "questions" in read_toml(path)]


@pytest.mark.parametrize("path", sorted(RECIPES), ids=lambda path: path.stem)
def test_shipped_recipes_ask_nothing_about_measured_entries(path: Path, tmp_path: Path) -> None:
    """Questions about Python's manual, which is measured, leave out all sets in questions/."""
    recipe = load_without_data(path, ReaderRecipe, tmp_path)

    measured = tmp_path / "references" / "python3.11"
    over_python = [s for s in recipe.questions if measured in (s.path, s.reference)]
    assert over_python
    for source in over_python:
        assert source.leave_out == (tmp_path / "questions",)


def test_the_released_reader_matches_its_recipe() -> None:
    recipe = read_toml(CONFIGS / "refqa-l12-onward.toml")
    released = json.loads((RELEASED_READER / READER_SETTINGS).read_text())

    assert released["name"] == recipe["name"] == RELEASED_READER.name
    assert released["max_tokens"] == recipe["reading"]["max_tokens"]
    for key in ("prior_weight", "calibration", "base_model", "trained_on"):
        assert released[key] == recipe["export"][key]
