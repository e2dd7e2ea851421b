"""Zero-shot classification with a fake encoder whose cosines grow with shared words."""

from __future__ import annotations

import re
import threading
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from purlin.index.classify.labels import DEFAULT_TEMPLATES, LabelSet, label_name, prompts
from purlin.index.classify.scores import RANKED, fitting_score, independent_scores, shared_scores
from purlin.index.classify.zero_shot import Classifier
from purlin.index.errors import InvalidInput
from tests.support.hash_encoder import HashEncoder

LABELS = ["sports", "business", "world"]
PLAIN = ("{label}",)
# Labels that are their own wordings: what stands before an equals sign would be the name alone.
printed = st.text(
    st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="="), min_size=1
).filter(lambda s: s.strip())
names = st.lists(printed, min_size=2, max_size=12, unique_by=str.strip)


def test_label_sharing_words_with_text_wins(encoder: HashEncoder) -> None:
    texts = ["sports sports results", "the business of banks", "world"]
    results = Classifier(encoder).classify(texts, LABELS)
    assert [result.label for result in results] == LABELS


def test_score_is_the_mean_cosine_over_templates(encoder: HashEncoder) -> None:
    templates = ("news about {label}", "{label} and more")
    text = "news of sports and world"
    vector = encoder.encode([text], role="query")[0]
    prompts = [[t.replace("{label}", label) for t in templates] for label in LABELS]
    cosines = np.array(
        [[np.mean([vector @ v for v in encoder.encode(p, role="query")]) for p in prompts]],
        np.float32,
    )
    (result,) = Classifier(encoder).classify([text], LABELS, templates=templates)
    expected = dict(zip(LABELS, shared_scores(cosines)[0], strict=True))

    assert {entry.label: entry.score for entry in result.ranking} == pytest.approx(
        expected, abs=2e-6
    )


@given(
    labels=names, multi_label=st.booleans(), text=st.text(min_size=1).filter(lambda s: s.strip())
)
def test_ranking_is_sorted_and_complete(labels: list[str], multi_label: bool, text: str) -> None:
    (result,) = Classifier(HashEncoder()).classify([text], labels, multi_label=multi_label)
    scores = [entry.score for entry in result.ranking]

    assert sorted(entry.label for entry in result.ranking) == sorted(labels)
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    assert result.label == result.ranking[0].label
    assert result.margin == pytest.approx(scores[0] - scores[1], abs=1e-6)
    if not multi_label:
        assert sum(scores) == pytest.approx(1, abs=1e-6 * len(labels))


def test_independent_scores_ignore_other_labels(encoder: HashEncoder) -> None:
    classifier = Classifier(encoder)
    (few,) = classifier.classify(["sports today"], LABELS[:2], multi_label=True)
    (more,) = classifier.classify(["sports today"], LABELS, multi_label=True)
    by_label = {entry.label: entry.score for entry in more.ranking}

    assert all(
        by_label[entry.label] == pytest.approx(entry.score, abs=1e-6) for entry in few.ranking
    )


def test_independent_scores_rise_with_the_cosine() -> None:
    scores = independent_scores(np.linspace(-1, 1, 21, dtype=np.float32).reshape(1, -1))[0]
    assert (np.diff(scores) > 0).all()
    assert scores[0] < 0.01
    assert scores[-1] > 0.99


def test_equal_scores_keep_label_order(encoder: HashEncoder) -> None:
    (result,) = Classifier(encoder).classify(
        ["Sports"], ["SPORTS", "world", "sports", "Sports"], templates=PLAIN
    )
    assert [entry.label for entry in result.ranking[:3]] == ["SPORTS", "sports", "Sports"]
    assert result.margin == 0


def test_label_is_none_below_min_score(encoder: HashEncoder) -> None:
    (result,) = Classifier(encoder).classify(["nothing of the kind"], LABELS, min_score=0.9)
    assert result.label is None
    assert len(result.ranking) == 3
    assert result.score == result.ranking[0].score < 0.9


def test_ranking_is_cut_to_the_best(encoder: HashEncoder) -> None:
    labels = [f"label {number}" for number in range(RANKED + 50)]
    cosines = encoder.encode(["label 149"], role="query") @ encoder.encode(labels, role="query").T
    best = np.argsort(-shared_scores(cosines)[0], kind="stable")[:RANKED]
    (result,) = Classifier(encoder).classify(["label 149"], labels, templates=PLAIN)
    assert [entry.label for entry in result.ranking] == [labels[row] for row in best]


def test_multi_label_takes_one_label(encoder: HashEncoder) -> None:
    (result,) = Classifier(encoder).classify(["sports"], ["sports"], multi_label=True)
    assert result.margin == result.score
    assert len(result.ranking) == 1


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("Sports > Football > World Cup", "About World Cup (Sports, Football)."),
        (" Sports >  Football ", "About Football (Sports)."),
        ("World Cup", "About World Cup."),
        ("a>b", "About a>b."),
        ("> 5 years", "About > 5 years."),
        ("{label}", "About {label}."),
    ],
)
def test_prompt_writes_path_from_last_part(label: str, expected: str) -> None:
    assert prompts(label, ["About {label}."]) == (expected,)


@pytest.mark.parametrize(
    ("label", "name", "expected"),
    [
        ("fault = broken | does not work", "fault", ("A broken.", "A does not work.")),
        (" fault  =  Sports > Ball ", "fault", ("A Ball (Sports).",)),
        ("a=b", "a=b", ("A a=b.",)),
        ("a | b", "a | b", ("A a | b.",)),
        ("a = b = c", "a", ("A b = c.",)),
    ],
)
def test_wordings_replace_the_name_in_prompts(
    label: str, name: str, expected: tuple[str, ...]
) -> None:
    assert label_name(label) == name
    assert prompts(label, ["A {label}."]) == expected


def test_results_have_the_name_of_a_label_with_wordings(encoder: HashEncoder) -> None:
    labels = ["sport = match result | striker scored", "money = bank | invoice"]
    (result,) = Classifier(encoder).classify(["a striker scored"], labels, templates=PLAIN)
    assert result.label == "sport"
    assert {entry.label for entry in result.ranking} == {"sport", "money"}

    vectors = encoder.encode(["match result", "striker scored"], role="query")
    label_set = Classifier(encoder).label_set(labels, PLAIN)
    assert label_set.vectors[0] == pytest.approx(vectors.mean(axis=0), abs=1e-6)


@pytest.mark.parametrize(
    ("labels", "field", "words"),
    [
        (["a = b", "a = c"], "labels[1]", "further wordings of it stand behind its name"),
        (["a = b | ", "c"], "labels[0]", "has an empty wording: write `name = one | another`"),
        (["a =  ", "c"], "labels[0]", "has an empty wording"),
        ([" = b", "c"], "labels[0]", "empty"),
        (["c", "a = " + " | ".join("x" * 17)], "labels[1]", "more than 16 wordings"),
        ([f"{n} = {' | '.join('x' * 16)}" for n in range(626)], "labels", "10,016 wordings"),
    ],
)
def test_wordings_that_cannot_be_read_are_refused(
    encoder: HashEncoder, labels: list[str], field: str, words: str
) -> None:
    with pytest.raises(InvalidInput, match=re.escape(words)) as caught:
        Classifier(encoder).classify(["text"], labels)
    assert caught.value.field == field


def test_long_runs_of_spaces_in_labels_are_read_quickly(encoder: HashEncoder) -> None:
    # The time is quadratic for one expression that takes in the spaces: hours.
    space = " " * 1_000_000
    label = f"a{space}b"
    assert (label_name(label), prompts(label, PLAIN)) == (label, (label,))


def test_independent_scores_name_all_labels_that_fit(encoder: HashEncoder) -> None:
    labels = ["sports", "business", "world"]
    (result,) = Classifier(encoder).classify(
        ["sports business"], labels, templates=PLAIN, multi_label=True
    )
    assert result.labels == ("sports", "business")
    assert set(result.labels) == {entry.label for entry in result.ranking if entry.score >= 0.5}

    (strict,) = Classifier(encoder).classify(
        ["sports business"], labels, templates=PLAIN, multi_label=True, min_score=0.99999999
    )
    assert (strict.labels, strict.label) == ((), None)
    (single,) = Classifier(encoder).classify(["sports business"], labels)
    assert single.labels is None


def test_labels_far_behind_the_best_do_not_fit() -> None:
    # Odds of 99, 33 and 32: a third of the best one's, and less.
    assert fitting_score(0.99) == pytest.approx(33 / 34)
    assert (fitting_score(0.5), fitting_score(0.2), fitting_score(1.0)) == (0.5, 0.5, 1.0)
    assert fitting_score(0.99, min_score=0.3) == 0.3


def test_labels_near_to_all_texts_are_not_all_named(encoder: HashEncoder) -> None:
    labels = ["recipe sports sports", "recipe business", "recipe world"]
    texts = ["recipe sports sports sports"]
    classify = partial(
        Classifier(encoder).classify, texts, labels, templates=PLAIN, multi_label=True
    )
    (result,) = classify()
    assert all(entry.score > 0.5 for entry in result.ranking)
    assert result.labels == ("recipe sports sports",)
    (by_threshold,) = classify(min_score=0.5)
    assert len(by_threshold.labels or ()) == 3


@pytest.mark.parametrize("label", ["AUTH=failed login", "AUTH\tfailed login", "broken|faulty"])
def test_a_name_with_a_description_is_warned_of(encoder: HashEncoder, label: str) -> None:
    label_set = Classifier(encoder).label_set([label, "network"])
    (warning,) = label_set.warnings()
    assert repr(label) in warning
    assert "with spaces around = and |" in warning
    assert not Classifier(encoder).label_set(["AUTH = failed | broken", "network"]).warnings()


def test_neighbours_decide_where_a_text_says_little(encoder: HashEncoder) -> None:
    texts = ["sports match goal", "goal goal", *["sports match goal striker"] * 5, "business bank"]
    labels = ["sports", "business"]
    alone = Classifier(encoder).classify(texts, labels, templates=PLAIN)
    together = Classifier(encoder).classify(texts, labels, templates=PLAIN, transductive=True)

    assert alone[1].margin == pytest.approx(0, abs=0.05)
    assert together[1].label == "sports"
    assert together[1].margin > alone[1].margin + 0.3
    assert together[-1].label == "business"


def test_one_text_is_classified_alike_together(encoder: HashEncoder) -> None:
    classifier = Classifier(encoder)
    (alone,) = classifier.classify(["sports today"], LABELS)
    (together,) = classifier.classify(["sports today"], LABELS, transductive=True)
    assert together.label == alone.label


def test_together_and_each_label_on_its_own_exclude_each_other(encoder: HashEncoder) -> None:
    with pytest.raises(InvalidInput, match="omit one of the two") as caught:
        Classifier(encoder).classify(["a"], LABELS, multi_label=True, transductive=True)
    assert caught.value.field == "transductive"


def test_label_set_lists_similar_pairs() -> None:
    generator = np.random.default_rng(0)
    vectors = generator.standard_normal((700, 64)).astype(np.float32)
    vectors[500] = vectors[3] * 2
    vectors[601] = vectors[600] + 0.01
    similar = LabelSet.of([f"l{row}" for row in range(700)], vectors).similar

    assert [(first, second) for first, second, _ in similar] == [("l3", "l500"), ("l600", "l601")]
    assert similar[0][2] == pytest.approx(1)
    assert len(LabelSet.of(["x"] * 50, np.ones((50, 4), np.float32)).similar) == 10


def test_label_sets_beyond_capacity_are_dropped(encoder: HashEncoder) -> None:
    classifier = Classifier(encoder, capacity=4)
    first = classifier.label_set(["a", "b"])

    assert classifier.label_set(["a", "b"]) is first
    classifier.label_set(["c", "d"])
    assert classifier.label_set(["a", "b"]) is first
    classifier.label_set(["e", "f"])
    assert classifier.label_set(["a", "b"]) is first
    classifier.label_set(["g", "h", "i"])
    assert classifier.label_set(["a", "b"]) is not first


def test_several_blocks_keep_text_order(encoder: HashEncoder) -> None:
    texts = [LABELS[number % 3] for number in range(700)]
    results = Classifier(encoder).classify(texts, LABELS, templates=PLAIN)
    assert [result.label for result in results] == texts


def test_cached_labels_are_not_encoded_again(encoder: HashEncoder) -> None:
    classifier = Classifier(encoder)
    (first,) = classifier.classify(["first"], LABELS)
    encoder.encoded.clear()

    assert classifier.classify(["first"], LABELS) == [first]
    assert encoder.encoded == ["first"]
    encoder.encoded.clear()
    classifier.classify(["second"], ["world", "sports", "films"])
    assert encoder.encoded == [
        template.replace("{label}", "films") for template in DEFAULT_TEMPLATES
    ] + ["second"]
    encoder.encoded.clear()
    classifier.classify(["third"], LABELS, templates=PLAIN)
    assert encoder.encoded == [*LABELS, "third"]
    assert classifier.classify(["first"], LABELS) == [first]


def test_least_recently_used_labels_are_dropped(encoder: HashEncoder) -> None:
    classifier = Classifier(encoder, capacity=3)
    classifier.classify(["x"], ["a", "b", "c"], templates=PLAIN)
    classifier.classify(["x"], ["a", "d"], templates=PLAIN)
    encoder.encoded.clear()
    (result,) = classifier.classify(["x"], ["a", "b", "c", "d"], templates=PLAIN)

    assert encoder.encoded == ["b", "x"]
    assert len(result.ranking) == 4


def test_threads_sharing_the_cache_get_their_labels(encoder: HashEncoder) -> None:
    classifier = Classifier(encoder, capacity=20)
    wrong_results: list[object] = []

    def classify_in_thread(first: int) -> None:
        for number in range(first, first + 60):
            labels = [f"word{number + offset}" for offset in range(8)]
            (result,) = classifier.classify([labels[5]], labels, templates=PLAIN)
            wrong_results.extend(
                [result]
                if result.ranking[0].score < result.ranking[-1].score or not result.label
                else []
            )
            expected = Classifier(HashEncoder()).classify([labels[5]], labels, templates=PLAIN)
            wrong_results.extend([result] if result != expected[0] else [])

    threads = [
        threading.Thread(target=classify_in_thread, args=(first,)) for first in (0, 7, 14, 21)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong_results == []


@pytest.mark.parametrize(
    ("texts", "labels", "templates", "field", "words"),
    [
        ([], LABELS, PLAIN, "texts", "no texts"),
        (["a", "b", "c", " \n"], LABELS, PLAIN, "texts[3]", "empty"),
        (["a"], [], PLAIN, "labels", "no labels"),
        (["a"], ["one"], PLAIN, "labels", "one label"),
        (["a"], ["one", "\t"], PLAIN, "labels[1]", "empty"),
        (["a"], ["one", "two", " one "], PLAIN, "labels[2]", "is there twice"),
        (["a"], LABELS, (), "templates", "no templates"),
        (["a"], LABELS, ("{label}", "about"), "templates[1]", "no place"),
        (["a"], LABELS, ("{label} {0}",), "templates[0]", "other braces"),
        (["a"], LABELS, ("{{label}}",), "templates[0]", "other braces"),
        (["a"], LABELS, ("{label!r}",), "templates[0]", "no place"),
    ],
)
def test_refusal_names_the_field(
    encoder: HashEncoder,
    texts: list[str],
    labels: list[str],
    templates: tuple[str, ...],
    field: str,
    words: str,
) -> None:
    with pytest.raises(InvalidInput, match=words.replace("[", r"\[")) as error:
        Classifier(encoder).classify(texts, labels, templates=templates)
    assert error.value.field == field
    assert encoder.encoded == []
