import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.qa.signatures import MAX_PARAMETERS, directive, entry_of, own_names, parameters
from index.records import Document, Passage


@pytest.mark.parametrize(
    ("signature", "found"),
    [
        ("say(*words, end='\\n', now=False)", {"words": None, "end": "'\\n'", "now": "False"}),
        ("range(start, stop[, step])", {"start": None, "stop": None, "step": None}),
        (
            "size(fallback=(80, 24), unit=[1, 2], *, by={})",
            {"fallback": "(80, 24)", "unit": "[1, 2]", "by": "{}"},
        ),
        ("open(path: str, mode: str = 'r, w') -> int", {"path": None, "mode": "'r, w'"}),
        ("cache(call)\ncache(limit=128)", {"call": None, "limit": "128"}),
        ("int add(int *first, const char second)", {"first": None, "second": None}),
        ("trim ( text [, chars ] ) → text", {"text": None, "chars": None}),
        ("quote(a='(', b=3)", {"a": "'('", "b": "3"}),
        ("--quiet", {}),
        ("total", {}),
        ("(((", {}),
    ],
)
def test_parameters_and_their_defaults(signature: str, found: dict[str, str | None]) -> None:
    seen = {
        one.name: signature[slice(*one.default)] if one.default else None
        for one in parameters(signature)
    }
    assert seen == found


def test_parameters_with_a_default_or_in_brackets_are_optional_and_some_are_switches() -> None:
    signature = "find(text[, start[, end]], once=True, sep=None)"
    assert [one.name for one in parameters(signature) if one.optional] == [
        "start",
        "end",
        "once",
        "sep",
    ]
    assert [one.name for one in parameters(signature) if one.switch] == ["once"]


@given(st.text(alphabet="ab ,=[](){}'\"*:\n", max_size=60))
def test_any_signature_has_an_end(signature: str) -> None:
    for one in parameters(signature):
        assert one.name in signature
        if one.default:
            assert 0 < one.default[0] < one.default[1] <= len(signature)


def test_parameters_are_bounded() -> None:
    assert len(list(parameters(f"f({', '.join(f'a{n}' for n in range(500))})"))) == MAX_PARAMETERS


def definition(title: str, signature: str, **fields: str | tuple[str, ...]) -> Document:
    return Document(
        title,
        "reference",
        title,
        f"{signature}\n\nIt is so.",
        fields={"signature": signature, **fields},
    )


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
        ("elsewhere", "something", []),
    ],
)
def test_where_a_definitions_name_stands(title: str, signature: str, names: list[str]) -> None:
    document = definition(title, signature)
    assert [document.body[start:end] for start, end in own_names(document)] == names


def test_a_definition_of_many_names_has_them_all() -> None:
    document = definition("-q, --quiet", "-q\n--quiet", names=("-q", "--quiet"))
    assert [document.body[start:end] for start, end in own_names(document)] == ["-q", "--quiet"]


def test_an_entry_by_passage() -> None:
    document = definition("shop.open", "shop.open(door=None)", directive="function", module="shop")
    first, later = (
        entry_of(document, Passage("shop.open", n, n * 25, len(document.body))) for n in (0, 1)
    )
    assert (first.directive, first.module, first.signature, first.names) == (
        "function",
        "shop",
        20,
        ((0, 9),),
    )
    assert (later.directive, later.module, later.signature, later.names) == (
        "function",
        "shop",
        0,
        (),
    )
    assert [one.default for one in (*first.parameters, *later.parameters)] == [(15, 19), None]
    section = Document("s", "reference", "Shops", "All about them.")
    assert entry_of(section, Passage("s", 0, 0, 5)).names == ()


def test_a_method_without_parentheses_is_an_attribute() -> None:
    assert directive(definition("A.size", "size", directive="method")) == "attribute"
    assert directive(definition("A.size", "size()", directive="method")) == "method"
