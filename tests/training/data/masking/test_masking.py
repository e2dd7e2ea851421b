from __future__ import annotations

import inspect
import json
import random
import re
import textwrap
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from purlin.index.errors import InvalidInput
from purlin.index.records import Span
from purlin.training.data.masking.code_start import code_start
from purlin.training.data.masking.entities import (
    MAX_MASKED_CHARS,
    describe_entities,
    entities,
    python_names,
)
from purlin.training.data.masking.identifiers import identifiers
from purlin.training.data.masking.masks import (
    Masked,
    entity_share,
    mask_entities,
    mask_spans,
    target_entities,
)
from purlin.training.data.masking.sentinels import encode_masked, prepare_tokenizer, sentinels
from purlin.training.data.pairs.pair import Pair
from purlin.training.models.sentence_models import base_checkpoint
from tests.support.paths import DATA

T5 = tuple(f"<extra_id_{number}>" for number in range(100))
BERT = tuple(f"[unused{number}]" for number in range(100))
FUNCTIONS = [
    json.loads(line) for line in (DATA / "masking/functions.jsonl").read_text().splitlines()
]
WORDS = re.compile(r"\w+|[^\w\s]")


def unmask(masked: Masked, sentinels: Sequence[str]) -> str:
    """Return the text before it was masked; a product's nouns all have their first spelling."""
    words = dict(target_entities(masked.target, sentinels))
    if not words:
        return masked.text
    any_sentinel = "|".join(map(re.escape, words))
    return re.sub(any_sentinel, lambda match: words[match[0]], masked.text)


def pair(passage: str, language: str = "python") -> Pair:
    return Pair(("query",), passage, "code", language)


def at(text: str, *words: str) -> list[Span]:
    """Return all occurrences of the words in the text."""
    return [
        Span(*match.span())
        for match in re.finditer("|".join(rf"\b{word}\b" for word in words), text)
    ]


def texts(passage: str, spans: tuple[Span, ...]) -> list[str]:
    return [passage[span.start : span.end] for span in spans]


def product(title: str, text: str, brand: str = "") -> Pair:
    return Pair(("query",), "\n".join(filter(None, [brand, title, text])), "product", title=title)


def test_the_report_says_how_entities_were_found() -> None:
    """The words' share is that of the paper's table 5; products have their own noun rules."""
    towel = product("Camping towel", "This towel dries. Take the towel along.", "Harrow")
    plain = product("Mug", "Steel under enamel.")
    spans = entities(towel)
    share = entity_share(towel.passage, spans) / 2

    line = describe_entities([towel, plain])
    assert line.startswith("nouns by rules of Purlin's own, where the paper takes NLTK's tagger; ")
    assert f"50% of 2 pairs have entities, {share:.1%} of the words" in line
    assert share > 0

    code = pair("def f(x):\n    return x")
    assert describe_entities([code]).startswith("identifiers by Python's tokenizer and tree-sitter")
    reference = Pair(("query",), "a term", "reference")
    assert describe_entities([reference]).startswith("random spans; 0% of 1 pairs")


# -- entities --------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", FUNCTIONS, ids=lambda row: f"{row['language']} {row['names'][0]}")
def test_entities_are_names_with_or_without_prose(
    row: dict[str, Any],
) -> None:
    alone = entities(pair(row["code"], row["language"]))
    assert list(dict.fromkeys(texts(row["code"], alone))) == row["names"]
    passage = f"{row['prose']}\n{row['code']}"
    shift = len(row["prose"]) + 1
    assert entities(pair(passage, row["language"])) == tuple(
        Span(s.start + shift, s.end + shift) for s in alone
    )


@pytest.mark.parametrize("row", FUNCTIONS, ids=lambda row: f"{row['language']} {row['names'][0]}")
def test_code_starts_at_the_definition(row: dict[str, Any]) -> None:
    assert code_start(row["code"], row["language"]) == 0
    assert code_start(f"{row['prose']}\n{row['code']}", row["language"]) == len(row["prose"]) + 1
    # If nothing looks like code, everything is treated as code.
    assert code_start(row["prose"], row["language"]) == 0


def test_code_of_a_language_without_known_heads_has_entities() -> None:
    code = "fn close(file: File) -> Path { file.path }"
    names = texts(code, entities(pair(code, "rust")))
    assert names == ["close", "file", "File", "Path", "file", "path"]


@pytest.mark.parametrize(
    "bad", ["public\n", " ", "<>", "(", "get ", "a.b", "\n", "class A ", "def a"]
)
def test_code_start_takes_linear_time(bad: str) -> None:
    began = time.process_time()
    for language in ("python", "go", "java", "php", "ruby", "javascript", "typescript"):
        code_start(bad * 20_000, language)
    assert time.process_time() - began < 5


def library_functions() -> list[str]:
    modules = [json.decoder, json.encoder, inspect, textwrap, random, re]
    functions = [
        function
        for module in modules
        for _, function in inspect.getmembers(module, inspect.isfunction)
        # Libraries put functions of their own in place of some.
        if function.__module__ == module.__name__
    ]
    return [textwrap.dedent(inspect.getsource(function)) for function in functions]


def test_python_names_agree_with_the_parser() -> None:
    functions = [code for code in library_functions() if python_names(code) is not None]
    assert len(functions) > 100
    compared = 0
    for code in functions:
        parsed, tokenized = set(identifiers(code, "python")), set(python_names(code) or ())
        assert tokenized <= parsed
        compared += len(tokenized)
        for span in parsed - tokenized:
            line = code[code.rfind("\n", 0, span.start) + 1 : span.start]
            in_format_string = re.search(r"\b[rR]?[fF][rR]?(\"|')", line) is not None
            assert code[span.start : span.end] in {"_", "match", "case", "type"} or in_format_string
    assert compared > 2000


def test_invalid_python_falls_back_to_the_parser() -> None:
    for code in (
        "def f(a):\n    return (a",
        "def f(a):\n  x = 1\n return a",
        "def f(a):\n    return a $ 2",
    ):
        assert python_names(code) is None
        assert texts(code, entities(pair(code)))[:2] == ["f", "a"]


def test_python_2_and_unicode_have_entities() -> None:
    code = 'def größe(x):\r\n    """数据"""\r\n    print x\f\n    données = x  # ok'
    assert texts(code, entities(pair(code))) == ["größe", "x", "print", "x", "données", "x"]


def test_entities_end_at_the_limit() -> None:
    spans = entities(pair("def f(x):\n" + "    x += 1\n" * 200_000))
    assert MAX_MASKED_CHARS - 100 < spans[-1].end <= MAX_MASKED_CHARS


def test_product_entities_are_shared_nouns() -> None:
    hose = product(
        "Garden Hose Reel", "Winds up hoses. Any hose of the garden fits, without a cable.", "Acme"
    )
    assert texts(hose.passage, entities(hose)) == ["Garden", "Hose", "hoses", "hose", "garden"]
    twice_in_title = product("Hose to Hose Adapter", "Brass adapter.")
    assert texts(twice_in_title.passage, entities(twice_in_title)) == ["Adapter", "adapter"]


def test_noun_of_a_missing_title_must_occur_twice() -> None:
    lamp = Pair(
        ("query",), "The lamp is a desk lamp. Has a shade.", "product", title="Lamp with shade"
    )
    assert texts(lamp.passage, entities(lamp)) == ["lamp", "lamp"]


def test_other_kinds_have_no_entities() -> None:
    assert entities(Pair(("query",), "def f(x): ...", "reference", "python")) == ()
    assert entities(pair("PROGRAM-ID. HELLO.", "cobol")) == ()
    assert entities(pair("def f(x): ...", "")) == ()
    assert entities(pair("")) == ()


# -- masking ---------------------------------------------------------------------------------------


def test_same_entity_gets_the_same_sentinel() -> None:
    text = "def add(a, b):\n    return b + a"
    masked = mask_entities(text, at(text, "add", "a", "b"), T5)
    assert masked == Masked(
        "def <extra_id_0>(<extra_id_1>, <extra_id_2>):\n    return <extra_id_2> + <extra_id_1>",
        "<extra_id_0> add <extra_id_1> a <extra_id_2> b",
        3,
    )


def test_case_matters_in_code_only() -> None:
    text = "Cable Cables cable"
    assert mask_entities(text, at(text, r"\w+"), T5).entities == 3
    masked = mask_entities(text, at(text, r"\w+"), T5, kind="product")
    assert masked == Masked("<extra_id_0> <extra_id_0> <extra_id_0>", "<extra_id_0> Cable", 1)
    assert unmask(masked, T5) == "Cable Cable Cable"


def test_entities_beyond_the_last_sentinel_stay() -> None:
    text = " ".join(f"v{number}" for number in range(120)) + " v0 v119"
    masked = mask_entities(text, at(text, r"v\d+"), T5)
    assert masked.entities == 100
    assert masked.text.split() == [
        *T5,
        *(f"v{number}" for number in range(100, 120)),
        "<extra_id_0>",
        "v119",
    ]
    assert (
        mask_entities(text, at(text, r"v\d+"), T5[:2]).target == "<extra_id_0> v0 <extra_id_1> v1"
    )
    assert mask_entities(text, at(text, r"v\d+"), ()) == Masked(text, "", 0)


def test_invalid_spans_are_ignored() -> None:
    spans = [Span(2, 4), Span(0, 2), Span(1, 3), Span(4, 4), Span(5, 4), Span(-1, 1), Span(5, 99)]
    masked = mask_entities("abcdef", spans, T5)
    assert masked == Masked("<extra_id_0><extra_id_1>ef", "<extra_id_0> ab <extra_id_1> cd", 2)


def test_sentinel_in_the_text_is_not_used() -> None:
    text = "use <extra_id_0> of T5, not <extra_id_2> of T5"
    masked = mask_entities(text, at(text, "T5", "use", "not <extra_id_2>"), T5)
    assert (
        masked.text == "<extra_id_1> <extra_id_0> of <extra_id_3>, not <extra_id_2> of <extra_id_3>"
    )
    assert unmask(masked, T5) == text


SPARE = st.sampled_from([T5, BERT, T5[:2]])
SNIPPETS = st.sampled_from(
    ["<extra_id_0>", "<extra_id_", "[unused1]", "[unused", ">", "]", "1>", " ", "name", "\n"]
)
TEXTS = st.lists(SNIPPETS | st.text(max_size=8), max_size=20).map("".join)
SPANS = st.lists(st.builds(Span, st.integers(-3, 90), st.integers(-3, 90)), max_size=25)


@settings(max_examples=300)
@given(TEXTS, SPANS, SPARE)
def test_unmask_restores_entities(text: str, spans: list[Span], spare: tuple[str, ...]) -> None:
    masked = mask_entities(text, spans, spare)
    assert unmask(masked, spare) == text
    assert masked.entities <= len(spare)


@settings(max_examples=200)
@given(TEXTS, SPARE, st.integers(0, 9), st.floats(0.01, 1.0), st.floats(1.0, 5.0))
def test_unmask_restores_random_spans(
    text: str, spare: tuple[str, ...], seed: int, share: float, mean_length: float
) -> None:
    assert unmask(mask_spans(text, spare, random.Random(seed), share, mean_length), spare) == text


def hidden_words(text: str, masked: Masked) -> int:
    return len(WORDS.findall(text)) - len(
        WORDS.findall(re.sub("<extra_id_\\d+>", " ", masked.text))
    )


@pytest.mark.parametrize("share", [0.15, 0.3, 0.5])
def test_random_spans_mask_the_share(share: float) -> None:
    text = "\n".join(row["code"] for row in FUNCTIONS[:4])
    words = len(WORDS.findall(text))
    for seed in range(20):
        masked = mask_spans(text, T5, random.Random(seed), share)
        assert hidden_words(text, masked) == round(words * share)
        assert masked.entities == round(round(words * share) / 3)
        assert re.findall("<extra_id_\\d+>", masked.text) == list(T5[: masked.entities])


def test_random_spans_fall_anywhere() -> None:
    text = " ".join(f"w{number}" for number in range(20))
    hidden = [
        set(text.split()) - set(mask_spans(text, T5, random.Random(seed)).text.split())
        for seed in range(400)
    ]
    counts = [sum(word in words for words in hidden) for word in text.split()]
    assert min(counts) > 0
    assert max(counts) < 150


def test_random_spans_stop_at_the_last_sentinel() -> None:
    text = "word " * 50_000
    masked = mask_spans(text, T5, random.Random(0))
    assert masked.entities == 100
    assert hidden_words(text, masked) == 300
    # 300 words are 15 % of 2,000.
    assert masked.text.rfind(">") < len("word ") * 2_200


def test_short_text_is_not_masked() -> None:
    for text in ("", " \n", "word"):
        assert mask_spans(text, T5, random.Random(0)) == Masked(text, "", 0)
    assert mask_spans("one two", T5, random.Random(0)).entities == 1
    assert mask_spans("one two", (), random.Random(0)).entities == 0


def test_entity_share_masks_the_same_amount() -> None:
    text = FUNCTIONS[0]["code"]
    spans = entities(pair(text))
    share = entity_share(text, spans)
    by_entity = mask_entities(text, spans, T5)
    assert hidden_words(text, by_entity) == hidden_words(
        text, mask_spans(text, T5, random.Random(0), share)
    )
    assert entity_share("a + b", at("a + b", "a", "b")) == pytest.approx(2 / 3)
    assert entity_share("", [Span(0, 3)]) == 0


# -- tokens ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bert() -> Any:
    return AutoTokenizer.from_pretrained(base_checkpoint())


@pytest.fixture(scope="module")
def byte_level() -> Any:
    """Like CodeT5's: a space belongs to the word after it, and the sentinels are numbered down from the end."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=500, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([row["code"] for row in FUNCTIONS], trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, clean_up_tokenization_spaces=False)
    fast.add_tokens(list(reversed(T5)), special_tokens=True)
    return fast


@pytest.fixture(scope="module")
def spaced() -> Any:
    """Like T5's: words that begin with a mark for the space before them."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=150, special_tokens=["<unk>", *T5], unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator([row["code"] for row in FUNCTIONS], trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>")


def masked_functions(spare: tuple[str, ...]) -> list[Masked]:
    rows = [(row["code"], entities(pair(row["code"], row["language"]))) for row in FUNCTIONS]
    return [mask_entities(code, spans, spare) for code, spans in rows]


def test_prepare_keeps_berts_unused_tokens_whole(
    bert: Any,
) -> None:
    prepared, spare = prepare_tokenizer(bert)
    assert spare == sentinels(bert) == BERT
    assert bert.tokenize("f([unused0])") == ["f", "(", "[", "unused", "##0", "]", ")"]
    assert prepared.tokenize("f([unused0], [unused99]x)") == [
        "f",
        "(",
        "[unused0]",
        ",",
        "[unused99]",
        "x",
        ")",
    ]
    assert prepared.convert_tokens_to_ids(list(spare)) == bert.convert_tokens_to_ids(list(spare))
    assert len(prepared) == len(bert) == 30522
    plain = "def unused0(x): return [unused] + x"
    assert prepared(plain)["input_ids"] == bert(plain)["input_ids"]


def test_tokenizer_without_sentinels_is_refused() -> None:
    bare = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel({"a": 0, "<unk>": 1}, "<unk>"))
    )
    with pytest.raises(InvalidInput, match=r"neither <extra_id_0>.*\[unused0\].*mep = 0"):
        prepare_tokenizer(bare)


@pytest.mark.parametrize("kind", ["bert", "byte_level", "spaced"])
def test_ids_keep_every_sentinel(kind: str, request: pytest.FixtureRequest) -> None:
    prepared, spare = prepare_tokenizer(request.getfixturevalue(kind))
    masked = masked_functions(spare)
    any_sentinel = re.compile("|".join(map(re.escape, spare)))
    for item, (text, target) in zip(
        masked, encode_masked(prepared, masked, spare, 512, 512), strict=True
    ):
        for ids, expected in ((text, item.text), (target, item.target)):
            tokens = prepared.convert_ids_to_tokens(ids)
            assert [token for token in tokens if token in spare] == any_sentinel.findall(expected)


def test_byte_level_ids_decode_to_text_and_target(byte_level: Any) -> None:
    prepared, spare = prepare_tokenizer(byte_level)
    masked = masked_functions(spare)
    for item, (text, target) in zip(
        masked, encode_masked(prepared, masked, spare, 512, 512), strict=True
    ):
        assert prepared.decode(text) == item.text
        # There is no token for a space alone.
        assert prepared.decode(target) == item.target.replace(" <extra", "<extra")


def test_limits_cut_targets_between_entities(bert: Any) -> None:
    prepared, spare = prepare_tokenizer(bert)
    masked = mask_entities(
        "alpha = beta(gamma, alpha)",
        at("alpha = beta(gamma, alpha)", r"\w+"),
        spare,
    )

    def decoded(max_tokens: int, max_target_tokens: int) -> tuple[str, str]:
        [(text, target)] = encode_masked(prepared, [masked], spare, max_tokens, max_target_tokens)
        assert len(text) <= max_tokens
        assert len(target) <= max_target_tokens
        return prepared.decode(text), prepared.decode(target)

    whole = "[unused0] alpha [unused1] beta [unused2] gamma"
    assert decoded(8, 9) == ("[unused0] = [unused1] ( [unused2], [unused0] )", whole)
    assert decoded(4, 9) == ("[unused0] = [unused1] (", "[unused0] alpha [unused1] beta")
    assert decoded(1, 9) == ("[unused0]", "[unused0] alpha")
    assert decoded(8, 6)[1] == whole
    assert decoded(8, 5)[1] == decoded(8, 4)[1] == "[unused0] alpha [unused1] beta"
    assert decoded(8, 1)[1] == ""


def test_nothing_masked_gives_an_empty_target(bert: Any) -> None:
    prepared, spare = prepare_tokenizer(bert)
    assert encode_masked(prepared, [], spare, 8, 8) == []
    [(text, target), empty] = encode_masked(
        prepared, [Masked("a b", "", 0), Masked("", "", 0)], spare, 8, 8
    )
    assert (len(text), target, empty) == (2, [], ([], []))


def test_target_has_only_visible_entities(bert: Any) -> None:
    prepared, spare = prepare_tokenizer(bert)
    ids: Callable[[list[str]], list[int]] = prepared.convert_tokens_to_ids
    sentinel_ids = set(ids(list(spare)))
    for limit in range(1, 60, 7):
        for text, target in encode_masked(prepared, masked_functions(spare), spare, limit, 512):
            assert {token for token in target if token in sentinel_ids} == {
                token for token in text if token in sentinel_ids
            }
