"""Passages keep exact offsets, cover the body in order, and never cut what belongs together."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purlin.index.records import Document, Kind, Location, Passage, Skipped, Span, Value
from purlin.index.sources.references import manual
from purlin.index.texts.passages import (
    LONG_WORD_CHARS,
    Splitter,
    lexical_text,
    render,
    split,
)
from tests.support.paths import DATA

REFERENCE = DATA / "reference"
SPLITTERS: list[Splitter] = ["whole", "simple", "structure", "extended"]


def definition(
    signature: str, description: str, *atoms: str, context: tuple[str, ...] = ()
) -> Document:
    body = f"{signature}\n\n{description}"
    spans = [Span(body.index(atom), body.index(atom) + len(atom)) for atom in (signature, *atoms)]
    fields: dict[str, Value] = {"signature": signature, "page_title": "The page"}
    title, options = signature.partition("(")[0], {"context": context, "fields": fields}
    return Document("d", "reference", title, body, atoms=tuple(spans), **options)


def texts(document: Document, splitter: Splitter, max_words: int = 100) -> list[str]:
    return [document.body[p.start : p.end] for p in split(document, splitter, max_words=max_words)]


def sentences(count: int, words: int) -> str:
    return " ".join(f"Sentence {number} {'word ' * (words - 3)}ends." for number in range(count))


# -- properties --------------------------------------------------------------------------------------------------------


BODIES = st.text(st.sampled_from("ab.!?A: \n\t-。あ\u00a0\u2003(1"), max_size=200) | st.text(
    max_size=200
)


@st.composite
def documents(draw: st.DrawFn) -> Document:
    body = draw(BODIES)
    bounds = st.integers(-2, len(body) + 2)
    atoms = draw(
        st.lists(st.tuples(bounds, bounds).map(lambda pair: Span(min(pair), max(pair))), max_size=5)
    )
    signature = body[: draw(st.integers(0, len(body)))]
    fields: dict[str, Value] = draw(
        st.sampled_from([{}, {"signature": signature}, {"signature": "elsewhere"}])
    )
    kind: Kind = draw(st.sampled_from(["code", "product", "reference"]))
    return Document("d", kind, "Title", body, fields=fields, atoms=tuple(atoms))


@given(documents(), st.sampled_from(SPLITTERS), st.integers(1, 12))
def test_passages_cover_all_text_in_order_without_overlap(
    document: Document, splitter: Splitter, words: int
) -> None:
    passages = split(document, splitter, max_words=words)
    at = 0
    for number, passage in enumerate(passages):
        text = document.body[passage.start : passage.end]
        assert passage.number == number
        assert document.body[at : passage.start].strip() == ""
        assert text == text.strip()
        assert text or passages == (passage,)  # a title alone has one empty passage
        at = passage.end
    assert passages
    assert document.body[at:].strip() == ""


@given(documents(), st.sampled_from(["structure", "extended"]), st.integers(1, 12))
def test_no_passage_cuts_an_atom(document: Document, splitter: Splitter, words: int) -> None:
    borders = [
        border for p in split(document, splitter, max_words=words) for border in (p.start, p.end)
    ]
    for atom in document.atoms:
        start = max(atom.start, 0)
        end = max(start, min(atom.end, len(document.body)))
        inner = document.body[start:end]
        first, last = start + len(inner) - len(inner.lstrip()), start + len(inner.rstrip())
        assert not [border for border in borders if first < border < last]


@given(BODIES, st.integers(1, 12))
def test_passages_without_atoms_keep_the_limit(body: str, words: int) -> None:
    document = Document("d", "reference", "Title", body)
    for splitter in SPLITTERS[1:]:
        assert all(len(text.split()) <= words for text in texts(document, splitter, words))


# -- each splitter -----------------------------------------------------------------------------------------------------


def test_simple_cuts_windows_of_words_across_everything() -> None:
    document = definition("f(x)", "one two three\n\n>>> four five", ">>> four five")
    assert texts(document, "simple", 3) == ["f(x)\n\none two", "three\n\n>>> four", "five"]
    assert {passage.context for passage in split(document, "simple", max_words=3)} == {"The page"}


def test_structure_fills_with_sentences_and_prefers_paragraphs() -> None:
    first, second = sentences(2, 6), sentences(2, 4)
    document = Document("d", "reference", "T", f"{first}\n\n{second}")
    assert texts(document, "structure", 20) == [document.body]
    assert texts(document, "structure", 16) == [first, second]
    expected = [*(f"Sentence {n} word word word ends." for n in (0, 1)), second]
    assert texts(document, "structure", 8) == expected


@pytest.mark.parametrize(
    "text", ["Use e.g. The second.", "Mind i.e. This one.", "See version 3.8 for more."]
)
def test_abbreviations_and_numbers_end_no_sentence(text: str) -> None:
    document = Document("d", "reference", "T", f"{text} A second sentence.")
    assert texts(document, "structure", len(text.split()) + 1) == [text, "A second sentence."]


def test_the_signature_stays_with_the_first_sentence() -> None:
    document = definition("f(a, b, c)", "First sentence here. Second one.")
    expected = ["f(a, b, c)\n\nFirst sentence", "here.", "Second one."]
    assert texts(document, "structure", 2) == expected
    assert texts(document, "structure", 4) == ["f(a, b, c)\n\nFirst sentence here.", "Second one."]


def test_a_long_code_block_is_one_passage_of_its_own() -> None:
    code = "\n".join(f">>> call({number}) is not cut" for number in range(50))
    document = definition("f()", f"Before it.\n\n{code}\n\nAfter it.", code)
    assert texts(document, "structure", 20) == ["f()\n\nBefore it.", code, "After it."]


def test_table_rows_and_list_items_are_not_cut() -> None:
    rows = [f"name {number} | value of it" for number in range(6)]
    document = definition("f()", "\n".join(rows), *rows)
    assert all(
        part in rows for text in texts(document, "structure", 13)[1:] for part in text.split("\n")
    )
    items = "\n".join(f"- item {number} of a list" for number in range(6))
    assert texts(Document("d", "reference", "T", items), "structure", 12) == [
        "\n".join(items.split("\n")[number : number + 2]) for number in (0, 2, 4)
    ]


def test_extended_context_has_the_terms() -> None:
    document = definition("step(x)", sentences(3, 8), context=("range", "start"))
    contexts = [passage.context for passage in split(document, max_words=12)]
    assert contexts == ["range start", "range start step", "range start step"]
    assert {passage.context for passage in split(document, "structure", max_words=12)} == {""}


def test_text_without_blanks_is_cut_by_length() -> None:
    document = Document("d", "reference", "T", "あ" * 10 * LONG_WORD_CHARS)
    words = [len(text) / LONG_WORD_CHARS for text in texts(document, "structure", 4)]
    assert words == [4, 4, 2]


@pytest.mark.parametrize("kind", ["code", "product"])
def test_code_and_products_stay_whole(kind: Kind) -> None:
    document = Document("d", kind, "T", " \n" + "word " * 500)
    assert split(document) == (Passage("d", 0, 2, 2 + 500 * 5 - 1),)
    assert split(document)[0].id == "d"


@pytest.mark.parametrize("splitter", SPLITTERS)
def test_a_title_alone_has_one_empty_passage(splitter: Splitter) -> None:
    document = Document("d", "product", "Title", " \n\t")
    [passage] = split(document, splitter)
    assert (passage.start, passage.end) == (0, 0)
    assert "Title" in render(document, passage)


def test_whole_pages_can_be_cut_across_their_structure() -> None:
    [file] = manual.files(REFERENCE / "docbook", unit="page")
    assert not isinstance(file, Skipped)
    [whole] = file.read()
    assert isinstance(whole, Document)
    cut = texts(whole, "simple", 10)
    assert cut[0] == "Server Settings\n\nLimits\n\nmax_looms (integer)\n\nSets how many looms may"
    assert split(whole, "simple", max_words=10)[1].context == "Server Settings"


# -- rendering ---------------------------------------------------------------------------------------------------------


def test_code_follows_its_comments_first_sentence() -> None:
    inside = Document("d", "code", "http.fetch_all", 'def f():\n    "Fetch."', summary="Fetch.")
    outside = Document(
        "d", "code", "fetchAll", "function fetchAll() {}", summary="Fetch all. Slowly."
    )
    assert render(inside) == inside.body
    assert render(outside) == "Fetch all.\nfunction fetchAll() {}"
    [passage] = split(outside)
    assert (
        lexical_text(outside, passage)
        == "fetchAll\nfetchAll\nFetch all. Slowly.\nfunction fetchAll() {}"
    )


def test_code_is_found_by_the_trait_it_is_of() -> None:
    method = Document(
        "lamp.rs::Lamp.fmt", "code", "Lamp.fmt", "fn fmt(&self)", context=("Lamp", "impl Display for Lamp"),
        location=Location("lamp.rs"), fields={"signature": "fn fmt(&self)"},
    )  # fmt: skip
    section = replace(method, fields={"signature": ""})

    assert render(method) == "impl Display for Lamp\nfn fmt(&self)"
    assert lexical_text(method, split(method)[0]).count("Display") == 1
    assert render(section) == "fn fmt(&self)"


def test_product_attributes_are_lexical_only() -> None:
    fields: dict[str, Value] = {
        "brand": "Acme", "attrs.colour": ("red", "blue"), "attrs.watt": 60.0, "attrs.dimmable": True, "price": 3
    }  # fmt: skip
    body = "Shines.\nColour: red blue\nWatt: 60\nDimmable: Yes"
    document = Document("d", "product", "Lamp", body, summary="Shines.", fields=fields)
    [passage] = split(document)
    assert render(document) == render(document, passage) == "Acme\nLamp\nShines."
    assert lexical_text(document, passage) == "Lamp\nLamp\nd\nAcme\nShines.\nred blue\n60"


def test_references_are_rendered_with_their_terms_but_none_twice() -> None:
    plain = definition("str.zfill(width)", "Return a copy.")
    nested = definition("step", "The value of it.", context=("range",))
    section = Document("d", "reference", "Heading", "Some prose.", context=())
    assert render(plain) == plain.body
    assert render(nested) == "range\nstep\n\nThe value of it."
    assert render(section) == "Heading\nSome prose."


def test_passage_is_rendered_with_its_context() -> None:
    document = definition("step(x)", sentences(2, 8), context=("range",))
    first, second = split(document, max_words=12)
    assert render(document, first) == f"range\n{document.body[: first.end]}"
    assert render(document, second) == f"range step\n{document.body[second.start :]}"
