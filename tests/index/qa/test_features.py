from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purlin.index.qa.answer_types import TYPES_BY_NAME, AnswerType, expected_type
from purlin.index.qa.candidates import PROPOSED, may_answer, span_candidates
from purlin.index.qa.features import (
    PASSAGE_WEIGHTS,
    SPAN_WEIGHTS,
    calibrated_probability,
    calibration_features,
    passage_features,
    passage_scores,
    span_features,
    span_score,
)
from purlin.index.qa.question import ParsedQuestion, parse_question
from purlin.index.qa.signatures import Parameter, PassageStructure, passage_structure
from purlin.index.records import Document, Hit, Location, Passage

OPEN = "shop.open(door, hour=9, quiet=False)"


def retrieved(
    title: str, body: str = "It is so.", *, score: float = 0.5, page: str = "a.html", **fields: str
) -> tuple[Hit, Document]:
    document = Document(title, "reference", title, body, location=Location(page), fields=fields)
    scores = {"dense": score, "lexical": score / 2}
    hit = Hit(title, title, 1, score, scores, title, body, (), document.location, document.fields)
    return hit, document


def features_of(question: str, *passages: tuple[Hit, Document]) -> list[dict[str, float]]:
    rows = passage_features(parse_question(question), passages).tolist()
    return [dict(zip(PASSAGE_WEIGHTS, row, strict=True)) for row in rows]


def of_types(
    question: str, *types: AnswerType, shares: tuple[float, ...] = (1.0,)
) -> ParsedQuestion:
    return replace(parse_question(question), types=tuple(zip(types, shares, strict=True)))


METHOD = retrieved(
    "shop.Basket.add",
    "add(apple)\n\nRaises FullError.",
    directive="method",
    signature="add(apple)",
)
SECTION = retrieved(
    "shop — Shops",
    "It sells apples.",
    score=0.4,
    page="b.html",
    directive="section",
    module="shop",
)


def test_features_of_the_entry_that_is_asked_for() -> None:
    method, section = features_of("which method raises FullError: basket.add", METHOD, SECTION)
    structural = ("kind", "named", "qualified", "first", "has")
    assert [method[name] for name in structural] == [1.0] * 5
    assert [section[name] for name in structural] == [0.0] * 5
    assert (method["dense"], method["lexical"]) == (0.5, 0.25)


def test_options_of_one_letter_are_told_apart_by_case() -> None:
    passages = [retrieved(name, f"{name}\n\nIt is so.", signature=name) for name in ("-p", "-P")]
    features = features_of("what does copy -p do", *passages)
    assert [each["named"] for each in features] == [1.0, 0.0]


def test_pages_share_the_retrieval_scores() -> None:
    method, section = features_of("which method raises FullError: basket.add", METHOD, SECTION)
    assert method["page"] + section["page"] == pytest.approx(1.0)
    assert method["page"] > section["page"]


def test_a_module_is_introduced_by_its_section() -> None:
    features = features_of("which module sells apples", METHOD, SECTION)
    assert [each["module"] for each in features] == [0.0, 1.0]


def test_a_module_that_is_named_is_what_its_purpose_is_about() -> None:
    features = features_of("what is shop used for", METHOD, SECTION)
    assert [each["module_purpose"] for each in features] == [0.0, 1.0]
    features = features_of("why is shop closed", METHOD, SECTION)
    assert [each["module_purpose"] for each in features] == [0.0, 0.0]


def test_a_call_has_the_full_name_of_its_entry() -> None:
    passages = [METHOD, retrieved("add", "add(x)", signature="add(x)")]
    features = features_of("what does add(1) return", *passages)
    assert [each["called"] for each in features] == [0.0, 1.0]
    features = features_of("which of shop.Basket.add() and add", *passages)
    assert [each["called"] for each in features] == [1.0, 0.0]


def test_a_signature_has_arguments() -> None:
    assert [each["has"] for each in features_of("which argument", METHOD, SECTION)] == [1.0, 0.0]


def test_a_passage_score_is_the_weighted_sum() -> None:
    question = "how do I close it"
    passages = [retrieved("shop.open", score=0.9), retrieved("shop.close", score=0.1)]
    sums = [
        sum(PASSAGE_WEIGHTS[name] * value for name, value in features.items())
        for features in features_of(question, *passages)
    ]
    scores = passage_scores(parse_question(question), passages)
    assert scores.tolist() == pytest.approx(sums)


def test_no_passages_have_no_scores() -> None:
    assert passage_scores(parse_question("anything"), []).shape == (0,)


STRUCTURE = PassageStructure(
    "function",
    "shop",
    len(OPEN),
    ((0, 9),),
    (
        Parameter("door"),
        Parameter("hour", (21, 22), optional=True),
        Parameter("quiet", (30, 35), optional=True, switch=True),
    ),
)
TEXT = (
    f"{OPEN}\n\nOpen the shop at hour, 8 on Mondays. If quiet, nobody is told. "
    "The default is late. Raises shop.Error."
)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("which function opens it", {"shop.open": {"typed", "own"}}),
        ("which argument keeps it secret", {"door": {"typed"}, "hour": {"typed"}, "quiet": {"typed", "switch"}}),
        ("which module is for shops", {"shop": {"module"}}),
        ("what does it raise", {"shop.Error": {"typed"}}),
        ("the hour by default", {"9": {"typed"}, "False": {"typed"}, "8": {"typed"}, "late": {"stated"}}),
        ("shop.open() on Mondays", {"9": {"literal"}, "False": {"literal"}, "8": {"literal"}}),
        ("how many are told by default", {"9": {"typed"}, "8": {"typed"}, "False": set(), "late": {"stated"}}),
        ("which attribute is it", {}),
    ],
)  # fmt: skip
def test_candidates_are_of_the_type_that_is_expected(
    question: str, expected: dict[str, set[str]]
) -> None:
    features_by_text: dict[str, set[str]] = {}
    candidates = span_candidates(of_types(question, expected_type(question)), TEXT, STRUCTURE)
    for (start, end), features in candidates.items():
        assert features[PROPOSED] == 1.0
        names = {name for name, value in features.items() if value}
        names -= {"optional", PROPOSED}
        features_by_text.setdefault(TEXT[start:end], set()).update(names)
    assert features_by_text == expected


def test_candidates_count_by_the_probability_of_their_type() -> None:
    types = TYPES_BY_NAME["exception"], TYPES_BY_NAME["function"]
    question = of_types("what about it", *types, shares=(0.75, 0.25))
    candidates = span_candidates(question, TEXT, STRUCTURE)

    error, name = TEXT.index("shop.Error"), (0, len("shop.open"))
    assert dict(candidates[error, error + len("shop.Error")]) == {"typed": 0.75, PROPOSED: 0.75}
    assert dict(candidates[name]) == {"typed": 0.25, "own": 0.25, PROPOSED: 0.25}
    features = span_features(question, TEXT, STRUCTURE, name, candidates[name])
    assert features["signature"] == 0.75
    assert PROPOSED not in features


@pytest.mark.parametrize(
    ("sentence", "phrases"),
    [
        (
            "Return a copy of the string, without spaces.",
            {"a copy of the string, without spaces", "a copy of the string", "a copy"},
        ),
        ("It returns None if there is none.", {"None"}),
        (
            "Return a list that has all, or an empty one.",
            {"a list that has all, or an empty one", "a list that has all", "a list"},
        ),
        ("It returns {ok, Basket} if all is well.", {"{ok, Basket}"}),
        ("The return value is a basket.", {"a basket"}),
        ("A returned basket is empty.", set()),
        ("Returns", set()),
    ],
)
def test_what_is_returned_is_a_candidate_for_a_result(sentence: str, phrases: set[str]) -> None:
    text, question = f"{OPEN}\n\n{sentence}", parse_question("what does shop.open return")
    candidates = span_candidates(question, text, STRUCTURE)
    returned = {
        text[slice(*span)] for span, features in candidates.items() if "returned" in features
    }
    assert returned == phrases

    other = span_candidates(parse_question("which function opens it"), text, STRUCTURE)
    assert not any("returned" in features for features in other.values())


@pytest.mark.parametrize(
    ("signature", "types"),
    [
        ("open(door) -> {ok, Door} | eof", {"{ok, Door} | eof", "{ok, Door}", "eof"}),
        ("open(door) -> Door when Door :: atom()\nopen() -> none", {"Door", "none"}),
        ("fn open(self, f: fn(u8) -> bool) -> Result<Door, Error> where Self: Sized", {"Result<Door, Error>"}),
        ("open :: (Door -> Key) -> Door", {"Door"}),
        ("def open(door) -> list[Door]:", {"list[Door]"}),
        ("open(door -> ", set()),
        ("function Open(Door: TDoor):TKey", {"TKey"}),
        ("open(door: Door): Option[Key]", {"Option[Key]"}),
        ("open(door: Door, then: (Key) -> Unit): Door", {"Door"}),
        ("(open door) → key?\ndoor : any/c = #f", {"key?"}),
        ("open : Door → Key → Door", {"Door"}),
        ("const struct door *open(const char *key, int turns);", {"const struct door *"}),
        ("public static Map<String, Door> open(Key key)", {"Map<String, Door>"}),
        ("async open(key)", set()),
        ("class open(key)", set()),
        ("T open(Key key)", {"T"}),
        ("pub const fn open(&self)", set()),
        ("fun open(key: Key)", set()),
        ("@open(key)", set()),
        ("$door->open($key)", set()),
    ],
)  # fmt: skip
def test_what_a_signature_says_is_returned_is_a_candidate(signature: str, types: set[str]) -> None:
    start = signature.lower().index("open")
    text, structure = (
        f"{signature}\n\nIt opens it -> so.",
        PassageStructure("function", "", len(signature), ((start, start + 4),)),
    )
    candidates = span_candidates(parse_question("what does open return"), text, structure)
    returned = {text[slice(*span)] for span, each in candidates.items() if "returned" in each}
    assert returned == types


def test_a_number_with_its_unit_is_a_candidate() -> None:
    text = f"{OPEN}\n\nWait at most ten minutes, by default 30 seconds, 1m30s or 10MB. One door, 7 keys."
    for question in ("how long does it wait", "the default wait of shop.open"):
        candidates = span_candidates(parse_question(question), text, STRUCTURE)
        quantities = {
            text[slice(*span)] for span, features in candidates.items() if "quantity" in features
        }
        assert quantities == {"ten minutes", "30 seconds", "1m30s", "10MB"}
    other = span_candidates(parse_question("which function waits"), text, STRUCTURE)
    assert not any("quantity" in features for features in other.values())


@pytest.mark.parametrize(
    ("text", "stated", "labelled"),
    [
        ("-w, --width=30s\n\nHow wide.", {"30s"}, set()),
        ("--weave='plain'\n\nHow it is woven.", {"plain"}, set()),
        ("--width=CM\n\nHow wide, as in --width=30.", set(), set()),
        ("Type: time\nDefault: 50M\nDefault value = 'slow lane'.", {"50M"}, {"50M", "slow lane"}),
        ("It defaults to “no”. The default is the empty list, unless set.", {"no", "the", "the empty list"}, set()),
        ("simple (the default)\n‘r’ (default)\nread only (default)", {"simple", "r", "only", "read only"}, set()),
        ("- width how wide (default 3.5)\n- height how high (optional, default width/3)", {"3.5", "width/3"}, set()),
        ("- width how wide (default: 3.5)\n- depth (default value 2), wet (default is no)", {"3.5", "2", "no"}, set()),
        ("turns it (default since 2.0), slow (default for silk)", {"turns it", "it", "slow"}, set()),
        ("weave: 'plain', // default\n\nHow it is woven.", {"plain"}, set()),
        ("{\n    weave: 'plain', // default\n    'threads': 4 # default\n}", {"plain", "4"}, set()),
        ("how it is kept. default: time,size,name", {"time,size,name"}, set()),
        ("--kept=<set> [default: time,size]", {"time,size", "time,size]"}, set()),
        ("It defaults to blue, as ever.", {"blue"}, set()),
        ("A defaulter pays.", set(), set()),
    ],
)  # fmt: skip
def test_what_is_said_to_be_a_default_is_a_candidate(
    text: str, stated: set[str], labelled: set[str]
) -> None:
    candidates = span_candidates(
        parse_question("what is the default of it"), text, PassageStructure()
    )
    for name, expected in (("stated", stated), ("labelled", labelled)):
        spans = {text[slice(*span)] for span, features in candidates.items() if name in features}
        assert spans == expected

    other = span_candidates(parse_question("which function pays"), text, PassageStructure())
    assert not any({"stated", "labelled"} & features.keys() for features in other.values())


def test_a_constant_may_be_the_code_of_an_error() -> None:
    text = "LOOM_TOO_MANY_TURNS (47)\n\nToo many turns. See LOOM_MAX_TURNS."
    structure = PassageStructure("term", signature_end=24, names=((0, 19),))
    for question, is_own in (("which error do too many turns give", True), ("which unit", False)):
        candidates = span_candidates(parse_question(question), text, structure)
        assert (candidates[0, 19].get("own", 0.0) > 0.5) == is_own


@pytest.mark.parametrize("error", ["ESRCH", "EAGAIN", "EWOULDBLOCK"])
def test_a_term_may_be_an_error_of_the_system(error: str) -> None:
    question = parse_question("which error does wind give if the spool does not exist")
    span = (0, len(error))
    structure = PassageStructure("term", signature_end=len(error), names=(span,))
    candidates = span_candidates(question, f"{error}\n\nNo spool. Not EXCEPT.", structure)
    assert candidates[span]["own"] > 0.5
    assert candidates[span]["typed"] > 0.5
    assert not any(candidates[other].get("typed") for other in candidates if other != span)


def test_a_number_that_is_a_term_may_be_a_status() -> None:
    structure = PassageStructure("term", signature_end=1, names=((0, 1),))
    question = parse_question("which exit status does loom return if the thread breaks")
    assert span_candidates(question, "4\n\nThe thread broke.", structure)[0, 1]["own"] > 0.5
    assert not span_candidates(question, "q\n\nThe thread broke.", structure)[0, 1].get("own")


def test_the_range_of_a_number_is_a_candidate() -> None:
    text = "Turns must be in the [0.5, 100.0] range."
    start = text.index("[")
    candidates = span_candidates(
        parse_question("what range of turns is allowed"), text, PassageStructure()
    )
    assert candidates[start, start + 12]["quantity"] > 0.5


def test_a_quantity_is_a_candidate_where_what_is_asked_about_is_a_range() -> None:
    candidates = span_candidates(
        parse_question("how many bytes does range take"), "It takes 48 bytes.", PassageStructure()
    )
    assert candidates[9, 17]["quantity"] > 0.5


def test_a_name_of_several_words_is_one_name() -> None:
    text = "timeout client <time>\n\nThe longest silence of a client."
    structure = PassageStructure("option", signature_end=21, names=((0, 14),))
    question = parse_question("which setting is the longest silence")
    candidates = span_candidates(question, text, structure)

    features = span_features(question, text, structure, (0, 14), candidates[0, 14])
    assert features["own"] > 0.5
    assert features["words"] == pytest.approx(math.log(2))


def test_labels_that_the_question_names_are_candidates() -> None:
    text = "MaxDoors\n\nType: integer\nDefault: 9\nObsolete directive: $Doors\nNote: It is so."
    for question, value in (
        ("what is the type of MaxDoors", "integer"),
        ("which type has MaxDoors", "integer"),
        ("which obsolete directive sets MaxDoors", "$Doors"),
        ("default of MaxDoors", "9"),
        ("what note has MaxDoors", "It is so."),
        ("which notes has MaxDoors", "It is so."),
    ):
        candidates = span_candidates(parse_question(question), text, PassageStructure())
        labelled = {text[slice(*span)] for span, each in candidates.items() if "labelled" in each}
        assert labelled == {value}


@pytest.mark.parametrize(
    ("question", "limit"),
    [
        ("what is the maximum of doors", "24"),
        ("which minimum have doors", "10 seconds"),
        ("what is the default of doors", None),
    ],
)
def test_the_limit_that_is_asked_for_is_a_candidate(question: str, limit: str | None) -> None:
    text = (
        "Doors. The default is 6, the maximum you can open is 24 (all).\nA minimum of 10 seconds."
    )
    candidates = span_candidates(parse_question(question), text, PassageStructure())
    stated = {text[slice(*span)] for span, each in candidates.items() if "stated" in each}
    assert stated - {"6"} == {limit} - {None}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("The mode.\n\nOne of: wide, shut\nDefault: shut", "wide, shut"),
        ("The mode is one of “wide” or “shut”. Nothing else.", "wide” or “shut"),
        ("Possible values are wide (default) and shut.", "wide (default) and shut"),
        ("Supported values for the mode are: wide, shut.", "wide, shut"),
        ("Valid choices: wide, shut", "wide, shut"),
        ("-m, --mode=(wide|shut|ajar)\n\nHow a door is.", "wide|shut|ajar"),
        ("--mode {wide,shut}\nHow a door is.", "wide,shut"),
        ("--mode=[=wide|shut]\nHow a door is.", "wide|shut"),
        ("--mode MODE\nWith --bar=a|b, how a door is.", None),
    ],
)
def test_the_values_that_something_may_have_are_a_candidate(text: str, values: str | None) -> None:
    for question in (
        "Which values may the mode of a door have?",
        "what are the valid values of mode",
        "possible values for mode",
    ):
        candidates = span_candidates(parse_question(question), text, PassageStructure())
        stating = {"labelled", "stated"}
        assert {
            text[slice(*span)] for span, each in candidates.items() if stating & each.keys()
        } == {values} - {None}

    returned = parse_question("which values does get_mode return")
    assert not returned.asks_for_values
    assert not parse_question("what is the default mode").asks_for_values


def test_entries_of_one_name_are_told_apart_by_what_is_around_them() -> None:
    def entry(page: str, id_: str, *headings: str) -> tuple[Hit, Document]:
        hit, document = retrieved("Mode", page=page, directive="option", signature="Mode")
        document = replace(document, id=id_, fields={**document.fields, "headings": headings})
        return hit, document

    door, gate = entry("door.html", "1", "Doors", "Options"), entry("gate.html", "2", "Gates")
    other = retrieved("Doors")
    for question, meant in (
        ("which mode do gates have", [0.0, 1.0, 0.0]),
        ("the mode option of door.html", [1.0, 0.0, 0.0]),
        # Neither is told, or both are.
        ("which mode is the default", [0.0, 0.0, 0.0]),
        ("which mode have doors and gates", [0.0, 0.0, 0.0]),
        ("what are gates", [0.0, 0.0, 0.0]),
    ):
        rows = features_of(question, door, gate, other)
        assert [row["homonym"] for row in rows] == meant, question


def test_cells_of_a_row_that_is_named_are_candidates() -> None:
    text = (
        f"{OPEN}\n\nsetting | default | meaning\nhour | 9 |  \nshop_door | 'front' | which door\n\n"
        "open { door | gate | [hour] }\nopen door | gate"
    )
    question = parse_question("what is the default of shop_door")
    candidates = span_candidates(question, text, STRUCTURE)
    cells = {
        text[slice(*span)]: features["column"]
        for span, features in candidates.items()
        if "row" in features
    }
    assert cells == {"'front'": 1.0, "which door": 0.0}

    # The heads are in the passage before.
    text = "shop_door | 'front' | which door\nhour | 9 |"
    candidates = span_candidates(question, text, PassageStructure())
    expected = {"'front'", "which door"}
    assert {text[slice(*span)] for span, each in candidates.items() if each.get("row")} == expected


def test_function_words_are_no_answers() -> None:
    question = parse_question("what does shop.open return")
    assert may_answer(question, "a key")
    assert not may_answer(question, "The")
    assert not may_answer(question, "Return a key")
    assert not may_answer(question, "If")
    assert may_answer(parse_question("which statement ends a function"), "return None")
    assert may_answer(parse_question("which keyword is it"), "in")


def test_spans_have_the_features_of_where_they_stand() -> None:
    question = parse_question("what is the default hour of shop.open")
    start = TEXT.index("late")
    late = span_features(question, TEXT, STRUCTURE, (start, start + 4), None)
    assert (late["default"], late["sentence"]) == (1.0, 1.0)
    assert (late["echo"], late["signature"]) == (0.0, 0.0)

    name = span_features(question, TEXT, STRUCTURE, (0, 9), None)
    assert (name["default"], name["echo"], name["signature"]) == (0.0, 1.0, 1.0)

    default = span_features(question, TEXT, STRUCTURE, (21, 22), {PROPOSED: 1.0})
    assert default["signature"] == 0.0


def test_a_span_score_is_the_weighted_sum() -> None:
    question = parse_question("what is the default hour of shop.open")
    features = span_features(question, TEXT, STRUCTURE, (0, 9), None)
    expected = sum(SPAN_WEIGHTS[name] * value for name, value in features.items())
    assert span_score(features) == pytest.approx(expected)
    assert span_score({"typed": 1.0, "echo": 1.0}) == pytest.approx(
        SPAN_WEIGHTS["typed"] + SPAN_WEIGHTS["echo"]
    )


@given(st.text(max_size=80), st.text(max_size=120))
def test_candidates_are_inside_any_text(question: str, body: str) -> None:
    signature = body.partition("\n")[0]
    document = Document("d", "reference", "f", body, fields={"signature": signature, "module": "f"})
    parsed = parse_question(question)

    for end in (len(body), len(body) // 2):
        text, structure = body[:end], passage_structure(document, Passage("d", 0, 0, end))
        for span, candidate in span_candidates(parsed, text, structure).items():
            assert 0 <= span[0] < span[1] <= end
            features = span_features(parsed, text, structure, span, candidate)
            assert features.keys() <= SPAN_WEIGHTS.keys()


def test_calibration_takes_the_best_retrieval_scores() -> None:
    hit, document = retrieved("shop.open", "Opens doors.", score=0.8)
    worse, _ = retrieved("shop.close", score=0.6)
    weights = {"open": 2.0, "door": 3.0, "yacht": 7.0, "sail": 5.0}
    features = calibration_features([worse, hit] * 6, document, weights, 0.5, [0.0])
    assert features == (0.8, 0.4, 7.0, 0.0, 1.0)


def test_calibration_tells_how_far_the_first_passage_is_ahead() -> None:
    hit, document = retrieved("shop.open", "Opens doors.")
    near, far, few = (
        calibration_features([hit] * count, document, {}, 0.5, [0.0, prior])[-1]
        for count, prior in ((12, 0.0), (12, -3.0), (2, -3.0))
    )
    assert near == 0.5
    assert far == pytest.approx(1 / (1 + math.exp(-3.0)))
    # Ten passages fewer than usual.
    assert few == pytest.approx(1 / (1 + math.exp(-3.0) + 10 * 0.15))


def test_readers_without_a_weight_for_the_last_feature_leave_it_out() -> None:
    weights = (0.5, 1.0, -1.0, 0.2, 0.3)
    features = (0.8, 0.4, 7.0, 0.0, 1.0)
    without = calibrated_probability(features, weights)
    assert without == calibrated_probability(features[:-1], weights)
    assert calibrated_probability(features, (*weights, 2.0)) > without


def test_calibration_has_no_missing_word_if_all_are_there() -> None:
    hit, document = retrieved("shop.open", "Opens doors.", score=0.8)
    features = calibration_features([hit], document, {"open": 2.0, "door": 3.0}, 0.8, [0.0])
    assert features[2:4] == (0.0, pytest.approx(math.log(4.0)))


def test_calibration_needs_no_passages() -> None:
    log_odds = pytest.approx(math.log(1e-4 / 0.9999))
    features = calibration_features([], None, {"open": 2.0}, 0.0, [])
    assert features == (0.0, 0.0, 2.0, log_odds, 0.0)


def test_a_calibrated_probability_is_logistic() -> None:
    expected = pytest.approx(1 / (1 + math.exp(1.5)), abs=1e-6)
    assert calibrated_probability((1.0, 2.0, 3.0), (0.5, 1.0, 0.0, -1.0)) == expected
    assert calibrated_probability((1e9, 0, 0), (0, 1, 0, 0)) == pytest.approx(1.0)
