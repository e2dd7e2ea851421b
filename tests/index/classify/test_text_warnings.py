"""Warnings of texts that are cut, and of languages that the encoder hardly knows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray

from purlin.index.classify.labels import labels_in_english
from purlin.index.classify.text_warnings import language_warnings, text_warnings
from purlin.index.classify.zero_shot import Classifier
from purlin.index.encoder import encoder_directory, in_english, load_encoder, translating
from purlin.index.encoder.transformer import Encoder

ENGLISH = [
    "Our brown bin was skipped again on Tuesday, the third time since March. Please send the lorry.",
    "ERROR: duplicate key value violates unique constraint, deadlock detected in process 1881",
]
GERMAN = [
    "Der Fahrer hat das Paket bei der Nachbarin im falschen Haus abgegeben.",
    "Die Kaffeemaschine tropft seit gestern und heizt nicht mehr richtig auf.",
]
SPANISH = [
    "El repartidor no llamó al timbre y dejó el paquete en la calle.",
    "Necesito la factura con el NIF de la empresa, y me habéis cobrado dos veces.",
]

JAPANESE = ["荷物がまだ届いていません。", "領収書の宛名を会社の名前に変えてください。"]
CHINESE = ["包裹还没有送到，请尽快查一下快递的位置。", "发票上的公司名称写错了，请重新开一张。"]


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    encoder = load_encoder(encoder_directory("labels"))
    assert isinstance(encoder, Encoder)
    return encoder


@pytest.mark.parametrize("texts", [GERMAN, SPANISH, [ENGLISH[0], *GERMAN]])
def test_texts_that_are_translated_are_counted(encoder: Encoder, texts: list[str]) -> None:
    (warning,) = text_warnings(Classifier(encoder).encoder, texts)
    assert warning.startswith(f"2 of {len(texts)} texts are in another language than English")


def test_english_texts_have_the_vectors_of_the_encoder_itself(encoder: Encoder) -> None:
    translating = Classifier(encoder).encoder
    assert translating.fingerprint == encoder.fingerprint
    own = encoder.encode(ENGLISH, role="query")
    np.testing.assert_array_equal(translating.encode(ENGLISH, role="query"), own)


def test_a_text_has_the_vector_of_its_english_words(encoder: Encoder) -> None:
    translating = Classifier(encoder).encoder
    words = [in_english(translating, text) for text in GERMAN]
    assert all(words)
    own = encoder.encode(words, role="query")
    np.testing.assert_array_equal(translating.encode(GERMAN, role="query"), own)


@pytest.mark.parametrize("texts", [GERMAN, SPANISH, GERMAN * 100, JAPANESE * 2, CHINESE * 2])
def test_another_language_is_warned_of(encoder: Encoder, texts: list[str]) -> None:
    (warning,) = text_warnings(encoder, texts)
    assert "tokens for each word of these texts" in warning
    assert "take another encoder" in warning


@pytest.mark.parametrize(
    "texts",
    [ENGLISH, ENGLISH * 100, ["Krzysztof Wojciechowski"], []],
)
def test_texts_that_are_read_are_not_warned_of(encoder: Encoder, texts: list[str]) -> None:
    assert text_warnings(encoder, texts) == []


def test_an_encoder_of_the_language_is_not_warned_of(encoder: Encoder) -> None:
    # With German pieces of words, as other encoders have: this one's, one a word.
    def count(texts: Sequence[str]) -> NDArray[np.int64]:
        return encoder.count_tokens(["word " * len(text.split()) for text in texts])

    assert language_warnings(count, GERMAN) == []
    assert len(language_warnings(partial(encoder.count_tokens, role="query"), GERMAN)) == 1


def test_cut_texts_are_counted(encoder: Encoder) -> None:
    fitting = "word " * (encoder.max_tokens - 2)
    longer = fitting + "word"
    assert text_warnings(encoder, ["short", fitting]) == []
    (warning,) = text_warnings(encoder, ["short", longer, fitting, longer])
    assert warning.startswith(
        "2 of 4 texts are longer than the 256 tokens that the encoder reads (the first is number 2)"
    )
    # Rows without a text are left out, so that a text's number is not its row's.
    (warning,) = text_warnings(encoder, ["short", longer], ["2", "5"])
    assert "(the first is row 5)" in warning

    (alone,) = text_warnings(encoder, [longer * 50])
    assert alone.startswith("1 text is longer than the 256 tokens that the encoder reads: ")


CODES = ["ENOENT", "ECONNRESET", "EPIPE", "EAGAIN", "EINVAL"]


def test_labels_of_unknown_words_are_warned_of(encoder: Encoder) -> None:
    (warning,) = Classifier(encoder).label_set(CODES).warnings()
    assert "tokens for each word of these labels" in warning


def test_labels_are_translated_for_texts_in_another_language_alone(encoder: Encoder) -> None:
    classifier = Classifier(encoder)
    labels = ["Rechnung", "Lieferung"]
    texts = ["Der Betrag ist falsch.", "The amount is wrong.", "Das Paket ist nicht angekommen."]
    results = classifier.classify(texts, labels)
    assert [result.label for result in results[::2]] == labels

    # A text's result depends on itself alone, and that of an English text on the labels as they are.
    assert [classifier.classify([text], labels)[0] for text in texts] == results
    vectors = encoder.encode([texts[1]], role="query") @ classifier.label_set(labels).vectors.T
    assert results[1].label == labels[vectors.argmax()]


def test_loanwords_are_labels_of_english_texts(encoder: Encoder) -> None:
    labels = ["pasta", "pizza", "sushi", "ramen"]
    assert list(labels_in_english(translating(encoder), labels)) != labels
    (result,) = Classifier(encoder).classify(["How long should I boil the spaghetti?"], labels)
    assert result.label == "pasta"


@pytest.mark.parametrize(
    "labels",
    [
        ["Rx refill", "appt", "lab results", "referral", "billing/insurance", "side effects"],
        ["Sauberkeit = how clean it is", "Lage = what is near", "Lärm = noise at night"],
    ],
)
def test_known_words_and_described_codes_are_not_warned_of(
    encoder: Encoder, labels: list[str]
) -> None:
    assert Classifier(encoder).label_set(labels).warnings() == []
