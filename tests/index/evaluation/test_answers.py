"""Question files against their format and the manual they ask about; measures against worked examples and loops."""

from __future__ import annotations

import gzip
import itertools
import json
import math
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from purlin.index.errors import InvalidInput, NotFound
from purlin.index.evaluation.answers import (
    READER_MEASURES,
    JudgedAnswer,
    Question,
    answer_measures,
    auroc,
    exact_match,
    f1,
    form_measures,
    judge,
    read_questions,
)
from purlin.index.evaluation.ranking import Measure
from purlin.index.records import Document, SourceFile
from purlin.index.sources import open_source
from tests.support.paths import ROOT

FOLDER = ROOT / "questions"
MANUAL = Path("/usr/share/doc/postgresql-doc-15/html")  # Debian's package postgresql-doc-15
BASH = Path("/usr/share/doc/bash/bashref.html")  # Debian's package bash-doc
PERL = Path("/usr/share/perl/5.36"), *Path("/usr/lib").glob("*/perl/5.36")

WIDTH = {
    "id": "q1",
    "question": "How wide is str.zfill's result?",
    "answers": ["width", "of length width"],
    "entry": "library/stdtypes.html#str.zfill",
    "form": "parameter name",
    "split": "dev",
}
NOTHING = WIDTH | {
    "id": "q2",
    "question": "Which colour is it?",
    "answers": [],
    "entry": None,
    "split": "test",
}


def _write(path: Path, *records: dict[str, Any] | str) -> Path:
    lines = (record if isinstance(record, str) else json.dumps(record) for record in records)
    content = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def _question(*answers: str, entry: str | None = "page.html#right") -> Question:
    return Question("q", "?", answers, entry, "default value", "dev")


# Files


@pytest.mark.parametrize("name", ["questions.jsonl", "questions.jsonl.gz"])
def test_questions_are_read_by_split(tmp_path: Path, name: str) -> None:
    path = _write(tmp_path / name, WIDTH, "", NOTHING | {"note": "ignored"})
    first, second = read_questions(path)
    assert first == Question(**{**WIDTH, "answers": ("width", "of length width")})  # type: ignore[arg-type]
    assert (second.id, second.answers, second.entry, second.split) == ("q2", (), None, "test")
    assert (first.answerable, second.answerable) == (True, False)
    assert read_questions(path, "test") == [second]


def test_a_question_with_an_entry_alone_is_answerable() -> None:
    assert _question(entry="page.html").answerable
    assert _question("x", entry=None).answerable


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"id": "q2"', "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ('["q2"]', "expected id, question"),
        ({key: value for key, value in NOTHING.items() if key != "form"}, "expected id, question"),
        (NOTHING | {"id": ""}, "expected id, question"),
        (NOTHING | {"id": 2}, "expected id, question"),
        (NOTHING | {"answers": "width"}, "expected id, question"),
        (NOTHING | {"entry": 7}, "expected id, question"),
        (NOTHING | {"id": "q1"}, "question 'q1' comes twice"),
        (NOTHING | {"question": " "}, "the question has 1 characters"),
        (
            NOTHING | {"question": "x" * 10_001},
            "the question has 10,001 characters instead of 1 to 10,000",
        ),
        (NOTHING | {"answers": ["x"] * 101}, "101 answers are more than 100"),
        (NOTHING | {"answers": ["x", 1]}, "an answer is not a string"),
        (NOTHING | {"answers": ["\t"]}, "an answer is not a string of 1 to 1,000"),
        (NOTHING | {"answers": ["x" * 1_001]}, "an answer is not a string of 1 to 1,000"),
        (NOTHING | {"about": 7}, "about is not an entry's name; leave it out"),
        (NOTHING | {"about": ""}, "about is not an entry's name; leave it out"),
        (NOTHING | {"entry": ""}, "the entry is empty; write null"),
        (" " * (1 << 20) + "{}", "longer than 1,048,576"),
    ],
)
def test_a_bad_line_is_named_by_file_and_number(
    tmp_path: Path, line: dict[str, Any] | str, problem: str
) -> None:
    path = _write(tmp_path / "questions.jsonl", WIDTH, line)
    with pytest.raises(InvalidInput, match=f"line 2: {problem}") as raised:
        read_questions(path)
    assert str(path) in raised.value.message


def test_unusable_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _write(tmp_path / "questions.jsonl", WIDTH, NOTHING)
    with pytest.raises(
        InvalidInput, match=r"has no question of split 'train', only of dev, test\."
    ):
        read_questions(path, "train")
    with pytest.raises(InvalidInput, match=r"has no question\."):
        read_questions(_write(tmp_path / "empty.jsonl"), "dev")
    with pytest.raises(NotFound, match="does not exist"):
        read_questions(tmp_path / "none.jsonl")
    monkeypatch.setattr("purlin.index.evaluation.answers.MAX_QUESTIONS", 1)
    with pytest.raises(InvalidInput, match="line 2: more than 1 questions"):
        read_questions(path)


# One answer


SAME = [
    ("str.zfill()", "str.zfill"), ("The `str.zfill()`.", "str.zfill"), ("'utf-8',", "UTF-8"), ("none", "None"),
    ("an  empty\nstring", "the empty string"), ("“fast”", "fast"), ("()", "()"), ("''", "''"), ("'a'", "a"),
    (".", "."), ("0.5.", "0.5"), ("", " "),
]  # fmt: skip
DIFFERENT = [
    ("zfill", "str.zfill"), ("exclude", "--exclude"), ("netrc", ".netrc"), ("0.5", "5"), ("05", "0.5"), ("-1", "1"),
    ("range(stop)", "range stop"), ("a", "an"), ("then", "n"), ("", "None"), ("", "()"), ("()", "''"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "accepted", "same"),
    [*((*pair, True) for pair in SAME), *((*pair, False) for pair in DIFFERENT)],
)
def test_differences_that_an_exact_match_ignores_or_counts(
    answer: str, accepted: str, same: bool
) -> None:
    assert exact_match(answer, [accepted]) == same
    assert exact_match(accepted, ["something else", answer]) == same
    assert f1(answer, [accepted]) == float(same)


def test_without_answers_only_silence_is_right() -> None:
    assert exact_match("", ())
    assert not exact_match("None", ())
    assert (f1("", ()), f1("None", ())) == (1.0, 0.0)


def test_f1_counts_repeated_words() -> None:
    assert f1("raises ValueError", ["ValueError"]) == pytest.approx(2 * (1 / 2 * 1) / (1 / 2 + 1))
    assert f1("128 megabytes", ["128MB", "about 128 megabytes"]) == pytest.approx(0.8)
    assert f1("to be to", ["to to be or not"]) == pytest.approx(2 * 3 / (3 + 5))
    assert f1("`str.zfill()`, or `zip()`", ["str.zfill zip"]) == pytest.approx(2 * 2 / (3 + 2))
    assert f1("no word", ["shared"]) == 0.0


TEXTS = st.text(alphabet="ab' .(),`-\n", max_size=12)


@given(TEXTS, TEXTS)
def test_f1_is_symmetric_for_any_texts(left: str, right: str) -> None:
    assert f1(left, [right]) == f1(right, [left])
    assert 0.0 <= f1(left, [right]) <= 1.0
    assert not exact_match(left, [right]) or f1(left, [right]) == 1.0
    assert exact_match(left, [left])


# One question


def test_ranks_by_text_differ_from_ranks_by_entry() -> None:
    other, right = "page.html#other", "page.html#right"
    passages = [(None, "nothing"), (other, "It is 0.5\n by default."), (right, "The rest.")]
    judged = judge(_question("0.5 by default", "1"), passages, ["0.5 by the default", "1"], 0.75)
    assert (judged.answer_rank, judged.entry_rank, judged.answerable) == (2, 3, 0.75)
    assert (judged.exact, judged.f1) == (True, 1.0)


def test_nothing_matches_without_passages() -> None:
    judged = judge(_question("x"), [], [], 0.0)
    assert (judged.answer_rank, judged.entry_rank) == (None, None)
    assert (judged.exact, judged.f1) == (False, 0.0)
    assert judge(_question("x", entry=None), [(None, "y")], ["x"], 0.0).entry_rank is None
    assert (
        judge(_question("x"), [("", "y")] * 100 + [("page.html#right", "x")], [], 0.0).answer_rank
        is None
    )


@pytest.mark.parametrize(
    ("answer", "text", "matches"),
    [
        ("1", "from 10 to 21", False),
        ("1", "version 1.5 or 0.1", False),
        ("1", "defaults to 1.", True),
        ("1", "(1, 2)", True),
        ("--jobs", "-j n\n--jobs=n", True),
        ("str.zfill()", "str.zfill(width)", True),
        ("zfill", "zfilled", False),
        ("the empty  string", "Gives an\nempty string", True),
        ("''", "default is ''.", True),
        ("%p", "Any %p is replaced", True),
        ("f(x)*", "f(x)*", True),
    ],
)
def test_answers_match_whole_words_of_a_passage(answer: str, text: str, matches: bool) -> None:
    assert (judge(_question(answer), [(None, text)], [], 0.0).answer_rank == 1) is matches


# All questions


def _judged(answer_rank: int | None, entry_rank: int | None, answerable: float) -> JudgedAnswer:
    exact = answer_rank == 1
    return JudgedAnswer(_question("x"), answer_rank, entry_rank, exact, 0.5, answerable, exact)


def test_measures_of_a_worked_example() -> None:
    unanswerable = JudgedAnswer(_question(entry=None), None, None, True, 1.0, 0.4)
    linked = JudgedAnswer(_question(entry="page.html"), None, 20, False, 0.0, 0.3)
    judged = [_judged(1, 2, 0.9), _judged(4, None, 0.4), unanswerable, linked]
    measures = {each.name: each for each in answer_measures(judged)}
    assert {name: (each.mean, each.queries, each.left_out) for name, each in measures.items()} == {
        "answer accuracy@1": (0.5, 2, 2),
        "answer accuracy@10": (1.0, 2, 2),
        "answer accuracy@100": (1.0, 2, 2),
        "answer MRR@100": (0.625, 2, 2),
        "entry accuracy@1": (0.0, 3, 1),
        "entry accuracy@10": (pytest.approx(1 / 3), 3, 1),
        "entry accuracy@100": (pytest.approx(2 / 3), 3, 1),
        "entry MRR@100": (pytest.approx(0.55 / 3), 3, 1),
        "exact match": (0.5, 2, 2),
        "right answer first": (0.5, 2, 2),
        "right answer or sentence first": (0.5, 2, 2),
        "F1": (0.5, 2, 2),
        "AUROC": (0.5, 4, 0),
    }
    assert (measures["F1"].low, measures["F1"].high) == (0.5, 0.5)
    assert measures["exact match"].low == 0.0
    assert measures["exact match"].high == 1.0


def test_a_right_answer_is_of_the_right_entry() -> None:
    passages = [("page.html#right", "x"), ("page.html#other", "x")]
    right, other, wrong = (
        judge(_question("x"), passages, [answer], 0.0, entry)
        for answer, entry in (("x", "page.html#right"), ("x", "page.html#other"), ("y", None))
    )
    assert [each.right for each in (right, other, wrong)] == [True, False, False]
    assert [(each.name, each.mean, each.queries) for each in form_measures([right, other])] == [
        ("right, default value", 0.5, 2)
    ]


def test_an_answer_may_be_shown_with_the_right_sentence() -> None:
    right = "page.html#right"
    name, elsewhere, neither = (
        judge(_question("It closes x."), [], ["close"], 0.0, entry, sentence)
        for entry, sentence in ((right, "It closes x."), ("x.html#y", "It closes x."), (right, ""))
    )
    assert not any(each.right for each in (name, elsewhere, neither))
    measures = {each.name: each.mean for each in answer_measures([name, elsewhere, neither])}
    assert measures["right answer or sentence first"] == pytest.approx(1 / 3)


def test_auroc_needs_unanswerable_questions() -> None:
    assert [each.name for each in answer_measures([_judged(1, 1, 1.0)])][-4:] == list(
        READER_MEASURES
    )
    alone = JudgedAnswer(_question(entry=None), None, None, False, 0.0, 0.0)
    for nothing in ([], [alone]):
        with pytest.raises(InvalidInput, match="no question with an answer"):
            answer_measures(nothing)


def _by_pairs(positive: list[float], negative: list[float]) -> float:
    above = [(high > low) + (high == low) / 2 for high in positive for low in negative]
    return sum(above) / len(above)


scores = st.lists(
    st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0]) | st.floats(0, 1), min_size=1, max_size=30
)


@given(scores, scores)
def test_auroc_counts_pairs_with_ties_as_half(positive: list[float], negative: list[float]) -> None:
    assert auroc(positive, negative) == pytest.approx(_by_pairs(positive, negative), abs=1e-12)
    assert auroc(negative, positive) == pytest.approx(1 - auroc(positive, negative), abs=1e-12)


@settings(max_examples=30)
@given(scores, scores)
def test_auroc_equals_that_of_scikit_learn(positive: list[float], negative: list[float]) -> None:
    theirs = pytest.importorskip("sklearn.metrics").roc_auc_score
    labels = [1] * len(positive) + [0] * len(negative)
    assert auroc(positive, negative) == pytest.approx(
        theirs(labels, positive + negative), abs=1e-12
    )


@pytest.mark.parametrize(
    ("positive", "negative"), [([], [1.0]), ([1.0], []), ([math.nan], [1.0]), ([1.0], [math.inf])]
)
def test_auroc_refuses_unusable_scores(positive: list[float], negative: list[float]) -> None:
    with pytest.raises(InvalidInput, match="AUROC needs finite scores"):
        auroc(positive, negative)


def _auroc(positive: list[float], negative: list[float]) -> Measure:
    unanswerable = [
        JudgedAnswer(_question(entry=None), None, None, False, 0.0, score) for score in negative
    ]
    return answer_measures([*(_judged(1, 1, score) for score in positive), *unanswerable])[-1]


def test_auroc_interval_of_two_proportions() -> None:
    """There the area is 1/2 + (p - q) / 2, linear in the proportions p and q of high scores on either side."""
    measure = _auroc([1.0] * 160 + [0.0] * 40, [1.0] * 30 + [0.0] * 70)
    spread = 1.96 * math.sqrt(0.8 * 0.2 / 200 + 0.3 * 0.7 / 100) / 2
    assert measure.mean == pytest.approx(0.75)
    assert (measure.low, measure.high) == pytest.approx((0.75 - spread, 0.75 + spread), abs=0.005)
    assert _auroc([0.9, 0.8], [0.1]) == Measure("AUROC", 1.0, 1.0, 1.0, 3)


# The question sets of this repository


MEASURED = {
    "python",
    "python-descriptive",
    "python-statements",
    "python-everyday",
    "python-unanswerable",
    "postgresql",
    "postgresql-unanswerable",
}
# Nothing is tuned on these, so they have no dev half.
MEASURED_ONLY = {"perl", "perl-unanswerable", "bash", "bash-unanswerable"}


def _sets() -> dict[str, list[Question]]:
    paths = sorted([*FOLDER.glob("*.jsonl"), *FOLDER.glob("training/*.jsonl")])
    return {
        path.relative_to(FOLDER).with_suffix("").as_posix(): read_questions(path) for path in paths
    }


def _splits(name: str) -> set[str]:
    if name in MEASURED:
        return {"dev", "test"}
    if name in MEASURED_ONLY:
        return {"test"}
    return {"train" if name.startswith("training/") else "dev"}


def test_questions_of_the_sets_are_well_formed() -> None:
    sets = _sets()
    assert set(sets) >= MEASURED | MEASURED_ONLY
    questions = [question for each in sets.values() for question in each]
    assert max(Counter(question.id for question in questions).values()) == 1
    assert max(Counter(question.question for question in questions).values()) == 1
    for name, each in sets.items():
        assert {question.split for question in each} == _splits(name)
        for question in each:
            assert bool(question.answers) == (question.entry is not None)
            if name in MEASURED | MEASURED_ONLY:
                assert bool(question.answers) != name.endswith("unanswerable")


@pytest.mark.parametrize("reference", ["python", "postgresql"])
def test_sets_ask_about_different_entries(reference: str) -> None:
    sets = _sets()
    training = [
        question
        for name in (reference, f"{reference}-unanswerable")
        for question in sets.get(f"training/{name}", [])
    ]
    disjoint = [sets[reference], sets[f"{reference}-tuning"], training]
    entries = [
        {question.entry or question.about for question in each} - {None} for each in disjoint
    ]
    assert all(entries[:2])
    assert all(not first & second for first, second in itertools.combinations(entries, 2))


def test_training_statements_ask_about_entries_of_no_other_set() -> None:
    sets = _sets()
    others = {
        question.entry or question.about
        for name, each in sets.items()
        # The entries that people ask about most are among those trained on, with other questions.
        if not name.startswith("training/") and name != "python-everyday"
        for question in each
    }
    training = [name for name in sets if re.fullmatch("training/.*-statements", name)]
    assert len(training) == 7
    assert not others & {question.entry for name in training for question in sets[name]}


@pytest.mark.parametrize("name", ["postgresql", "postgresql-unanswerable"])
def test_dev_and_test_have_the_same_forms(name: str) -> None:
    halves = [
        Counter(question.form for question in _sets()[name] if question.split == half)
        for half in ("dev", "test")
    ]
    assert all(abs(halves[0][form] - halves[1][form]) <= 1 for form in halves[0] | halves[1])
    assert abs(halves[0].total() - halves[1].total()) <= 1


def test_the_postgresql_set_spreads_over_the_manual() -> None:
    pages = Counter(str(question.entry).partition("#")[0] for question in _sets()["postgresql"])
    assert pages.total() >= 64
    assert len(pages) >= 25
    assert max(pages.values()) <= 6


@pytest.mark.parametrize(("name", "size"), [("perl", 100), ("bash", 50)])
def test_sets_that_are_only_measured_ask_once_about_an_entry(name: str, size: int) -> None:
    questions = _sets()[name]
    assert len(questions) >= size
    assert len({question.entry for question in questions}) == len(questions)


def test_the_perl_set_spreads_over_the_manual() -> None:
    questions = _sets()["perl"]
    pages = Counter(str(question.entry).partition("#")[0] for question in questions)
    assert len(pages) >= 80
    assert max(pages.values()) <= 11


def _bodies(manual: Path, questions: list[Question]) -> dict[str, list[str]]:
    """The texts of the entries of a manual that the questions name, read from their pages."""
    pages = {str(question.entry).partition("#")[0] for question in questions}
    bodies: dict[str, list[str]] = {}
    for file in open_source("reference", [manual]):
        if isinstance(file, SourceFile) and file.path in pages:
            for document in file.read():
                if isinstance(document, Document):
                    bodies.setdefault(str(document.location.url), []).append(document.body)
    return bodies


def _holds(question: Question, body: str) -> bool:
    judged = judge(question, [(str(question.entry), body)], question.answers, 1.0)
    return judged.answer_rank == 1 and all(answer in body for answer in question.answers)


# Anchors that the manual of 15.18 lacks.
MISSING_IN_SOME_RELEASES = {
    "app-pgrecvlogical.html#APP-PGRECVLOGICAL-OPTION-PLUGIN",
    "runtime-config-developer.html#GUC-COMPOSITE-TYPE-MISMATCH",
}


@pytest.mark.skipif(not MANUAL.is_dir(), reason="takes a manual: apt-get install postgresql-doc-15")
def test_answers_are_words_of_their_entries() -> None:
    sets = _sets()
    questions = [each for each in (*sets["postgresql"], *sets["postgresql-tuning"]) if each.answers]
    bodies = _bodies(MANUAL, questions)
    dropped = {str(question.entry) for question in questions} - set(bodies)
    assert dropped <= MISSING_IN_SOME_RELEASES

    for question in questions:
        if question.entry not in dropped:
            assert any(_holds(question, body) for body in bodies[str(question.entry)]), question


@pytest.mark.skipif(not BASH.exists(), reason="takes a manual: apt-get install bash-doc")
def test_answers_are_words_of_bashs_entries() -> None:
    questions = _sets()["bash"]
    bodies = _bodies(BASH, questions)
    for question in questions:
        [body] = bodies[str(question.entry)]
        assert _holds(question, body), question


@pytest.mark.skipif(
    not (PERL[0] / "pod/perlfunc.pod").exists(), reason="takes manuals: apt-get install perl-doc"
)
def test_answers_are_words_of_perls_entries(tmp_path: Path) -> None:
    questions = _sets()["perl"]
    (tmp_path / "pod").mkdir()
    (tmp_path / "html").mkdir()
    for page in {str(question.entry).partition(".html#")[0] for question in questions}:
        names = f"pod/{page}.pod", f"{page}.pod", f"{page}.pm"
        source = next(root / name for root in PERL for name in names if (root / name).exists())
        copy = tmp_path / "pod" / f"{page}{source.suffix}"
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, copy)

    convert = "Pod::Simple::HTMLBatch::go"
    subprocess.run(
        ["perl", "-MPod::Simple::HTMLBatch", "-e", convert, "pod", "html"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        timeout=180,
    )

    bodies = _bodies(tmp_path / "html", questions)
    for question in questions:
        [body] = bodies[str(question.entry)]
        assert _holds(question, body), question
