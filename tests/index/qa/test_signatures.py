from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purlin.index.qa.signatures import (
    MAX_PARAMETERS,
    MAX_SIGNATURE_CHARS,
    directive,
    overloads,
    own_names,
    passage_structure,
    signature_parameters,
)
from purlin.index.records import Document, Passage

SIGNATURES = [
    # Python
    ("range(start, stop[, step])", ["start", "stop", "step"]),
    ("print(*objects, sep=' ', end='\\n', file=None, flush=False)",
     ["objects", "sep=' '", "end='\\n'", "file=None", "flush=False"]),
    ("open(file, mode='r', buffering=-1, opener=None)", ["file", "mode='r'", "buffering=-1", "opener=None"]),
    ("sorted(iterable, /, *, key=None, reverse=False)", ["iterable", "key=None", "reverse=False"]),
    ("f(a: dict[str, int] = {'x': 1})", ["a={'x': 1}"]),
    ("f(path: str, mode: str = 'r, w') -> list[tuple[int, str]]", ["path", "mode='r, w'"]),
    ("os.get_terminal_size(fallback=(80, 24), unit=[1, 2], *, by={})", ["fallback=(80, 24)", "unit=[1, 2]", "by={}"]),
    ("sqlite3.connect(database, check=True[, factory[, uri=False]])",
     ["database", "check=True", "factory", "uri=False"]),
    # Pascal
    ("function Weave(const A, B: Cloth; Picks: Integer = 12):Cloth", ["A", "B", "Picks=12"]),
    # Racket, whose arguments have lines of their own
    ("(weave thread [#:picks picks]) → cloth?\nthread : (or/c string? #f)\n"
     "picks : (integer-in 0 (* 2 8)) = 12\nmax-wait : any/c = #f",
     ["thread", "picks=12", "max-wait=#f"]),
    # Python
    ("iter(object)\niter(object, sentinel)", ["object", "sentinel"]),
    ("lru_cache(user_function)\nlru_cache(maxsize=128, typed=False)", ["user_function", "maxsize=128", "typed=False"]),
    ("re.split(pattern, string, maxsplit=0, flags=0)", ["pattern", "string", "maxsplit=0", "flags=0"]),
    ('f(quote=\'(\', close="]", b=3)', ["quote='('", 'close="]"', "b=3"]),
    ("f(a[, b=2[, c=[1, 2]]])", ["a", "b=2", "c=[1, 2]"]),
    ("open(file, /, mode='a,b', *, at=(1, 2), **rest)", ["file", "mode='a,b'", "at=(1, 2)", "rest"]),
    ("f(size: int = 3, end=')')", ["size=3", "end=')'"]),
    # PostgreSQL
    ("trim ( text [, chars ] ) → text", ["text", "chars"]),
    ("round ( numeric ) → numeric", ["numeric"]),
    ("now ( ) → timestamp with time zone", []),
    # C and its like
    ("int PyDict_SetItem(PyObject *p, PyObject *key, PyObject *val)", ["p", "key", "val"]),
    ("int add(int *first, const char second)", ["first", "second"]),
    ("void swap(Text &left, Text& right)", ["left", "right"]),
    # Django
    ("get_or_create(defaults=None, **kwargs)", ["defaults=None", "kwargs"]),
    ("path(route, view, kwargs=None, name=None)", ["route", "view", "kwargs=None", "name=None"]),
    ("class DecimalField(max_digits=None, decimal_places=None, **options)",
     ["max_digits=None", "decimal_places=None", "options"]),
    # no parameters
    ("--quiet", []),
    ("total", []),
    ("f()", []),
    ("f(..., 1, a=)", ["a"]),
    ("(((", []),
    ("f(a, b='unclosed", ["a"]),
]  # fmt: skip


@pytest.mark.parametrize(("signature", "expected"), SIGNATURES)
def test_parameters_of_real_signatures(signature: str, expected: list[str]) -> None:
    parameters = [
        f"{each.name}={signature[slice(*each.default)]}" if each.default else each.name
        for each in signature_parameters(signature)
    ]
    assert parameters == expected


def test_optional_parameters_have_defaults_or_brackets() -> None:
    signature = "find(text[, start[, end]], once=True, sep=None)"
    parameters = signature_parameters(signature)
    optional = [parameter.name for parameter in parameters if parameter.optional]
    assert optional == ["start", "end", "once", "sep"]
    assert [parameter.name for parameter in parameters if parameter.switch] == ["once"]


def test_brackets_after_a_default_open_optional_parameters() -> None:
    parameters = signature_parameters("connect(timeout=5.0[, factory])")
    expected = [("timeout", True), ("factory", True)]
    assert [(parameter.name, parameter.optional) for parameter in parameters] == expected


def test_annotations_are_spans_of_the_signature() -> None:
    signature = "f(size: int = 3, name: dict[str, int] | None)\nf(key: str)"
    annotations = [parameter.annotation for parameter in signature_parameters(signature)]
    texts = [signature[slice(*annotation)] for annotation in annotations if annotation]
    assert texts == ["int", "dict[str, int] | None", "str"]


def test_overloads_keep_the_defaults_of_every_line() -> None:
    signature = "f(a, b=1)\nf(b=2)"
    parameters = overloads(signature)
    assert list(parameters) == ["a", "b"]
    spans = [parameter.default for parameter in parameters["b"]]
    assert [signature[slice(*span)] for span in spans if span] == ["1", "2"]


IDENTIFIERS = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True)
VALUES = st.recursive(
    st.sampled_from(["0", "-1", "None", "True", "'a, b'", '"(["', "x.y", "''"]),
    lambda values: st.one_of(
        st.lists(values, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        st.lists(values, min_size=2, max_size=3).map(lambda items: f"({', '.join(items)})"),
        st.lists(values, max_size=3).map(
            lambda items: "{" + ", ".join(f"{n}: {item}" for n, item in enumerate(items)) + "}"
        ),
    ),
    max_leaves=5,
)
ANNOTATIONS = st.sampled_from(["int", "str | None", "dict[str, list[int]]", "Callable[[int], str]"])
PARAMETERS = st.lists(
    st.tuples(IDENTIFIERS, st.none() | ANNOTATIONS, st.none() | VALUES),
    max_size=6,
    unique_by=lambda parameter: parameter[0],
)


@given(PARAMETERS, st.sampled_from(["", " -> dict[str, int]", " → text"]))
def test_a_written_signature_is_read_back(
    written: list[tuple[str, str | None, str | None]], result: str
) -> None:
    pieces = [
        name
        + (f": {annotation}" if annotation else "")
        + (f" = {value}" if value and annotation else f"={value}" if value else "")
        for name, annotation, value in written
    ]
    signature = f"f({', '.join(pieces)}){result}"
    read = [
        (
            parameter.name,
            signature[slice(*parameter.annotation)] if parameter.annotation else None,
            signature[slice(*parameter.default)] if parameter.default else None,
        )
        for parameter in signature_parameters(signature)
    ]
    assert read == written


@given(st.lists(IDENTIFIERS, min_size=1, max_size=6, unique=True), st.integers(0, 5))
def test_nested_brackets_make_parameters_optional(names: list[str], required: int) -> None:
    required = min(required, len(names))
    optional = names[required:]
    opening = "".join(f"[, {name}" for name in optional)
    signature = f"f({', '.join(names[:required])}{opening}{']' * len(optional)})"
    parameters = signature_parameters(signature)
    assert [parameter.name for parameter in parameters] == names
    assert [parameter.name for parameter in parameters if parameter.optional] == optional


@given(st.text(alphabet="ab ,=[](){}'\"*&:\n", max_size=60))
def test_spans_are_inside_any_signature(signature: str) -> None:
    parameters = signature_parameters(signature)
    assert len({parameter.name for parameter in parameters}) == len(parameters)
    for parameter in parameters:
        assert parameter.name in signature
        assert parameter.optional >= (parameter.default is not None)
        for span in (parameter.default, parameter.annotation):
            if span:
                text = signature[slice(*span)]
                assert 0 < span[0] < span[1] <= len(signature)
                assert text == text.strip()


def test_parameters_are_bounded() -> None:
    signature = f"f({', '.join(f'a{n}' for n in range(500))})"
    assert len(signature_parameters(signature)) == MAX_PARAMETERS


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "piece", ["(", "[", "a=[", "'", "a='", ",", "a,", "f(a=(", ")", "]", "raise raises Aa"]
)
def test_long_signatures_take_no_time(piece: str) -> None:
    signature = "f(" + piece * 50_000
    parameters = signature_parameters(signature)
    assert len(parameters) <= MAX_PARAMETERS
    spans = [parameter.default for parameter in parameters if parameter.default]
    assert all(end <= MAX_SIGNATURE_CHARS for _, end in spans)


# Structure of documents


def definition(title: str, signature: str, **fields: str | tuple[str, ...]) -> Document:
    body, fields = f"{signature}\n\nIt is so.", {"signature": signature, **fields}
    return Document(title, "reference", title, body, fields=fields)


@pytest.mark.parametrize(
    ("title", "signature", "names"),
    [
        ("shop.Basket", "class shop.Basket(size=3)", ["shop.Basket"]),
        ("shop.Basket.add", "add(apple)", ["add"]),
        ("shop_open (boolean)", "shop_open (boolean)", ["shop_open"]),
        ("ShopOpen", "int ShopOpen(Shop *shop)", ["ShopOpen"]),
        ("DEFAULT VALUES", "DEFAULT VALUES", ["DEFAULT VALUES"]),
        ("shop.Closed", "exception shop.Closed", ["shop.Closed"]),
        ("class shop.Till(size)", "class shop.Till(size)", ["shop.Till"]),
        ("Craft::Loom#weave", "weave(yarn)", ["weave"]),
        ("elsewhere", "something", []),
    ],
)
def test_a_name_is_found_in_the_signature(title: str, signature: str, names: list[str]) -> None:
    document = definition(title, signature)
    assert [document.body[start:end] for start, end in own_names(document)] == names


def test_an_entry_may_have_several_names() -> None:
    document = definition("-q, --quiet", "-q\n--quiet", names=("-q", "--quiet"))
    assert [document.body[start:end] for start, end in own_names(document)] == ["-q", "--quiet"]


def test_only_the_first_passage_has_the_signature() -> None:
    document = definition("shop.open", "shop.open(door=None)", directive="function", module="shop")
    first, later = (
        passage_structure(document, Passage("shop.open", number, number * 25, len(document.body)))
        for number in (0, 1)
    )
    assert (first.directive, first.module) == (later.directive, later.module)
    assert (first.directive, first.module) == ("function", "shop")
    assert (first.signature_end, first.names) == (20, ((0, 9),))
    assert (later.signature_end, later.names) == (0, ())
    assert [parameter.default for parameter in first.parameters] == [(15, 19)]
    assert [parameter.default for parameter in later.parameters] == [None]


def test_a_section_has_no_names() -> None:
    section = Document("s", "reference", "Shops", "All about them.")
    assert passage_structure(section, Passage("s", 0, 0, 5)).names == ()


def test_a_method_without_parentheses_is_an_attribute() -> None:
    assert directive(definition("A.size", "size", directive="method")) == "attribute"
    assert directive(definition("A.size", "size()", directive="method")) == "method"
