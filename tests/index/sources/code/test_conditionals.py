"""Conditionals of C's preprocessor that a grammar cannot read as they are."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purlin.index.sources.code.conditionals import resolved
from tests.support.code_documents import documents, documents_of, is_module, lines
from tests.support.files import write_file

FUNCTION = "int f(int a)\n{{\n{body}\n}}\n\nint after(void)\n{{\n\treturn 1;\n}}\n"


def rows(path: Path, source: str) -> list[tuple[str, int | None, int | None]]:
    return [lines(item) for item in documents(write_file(path, source)) if not is_module(item)]


@pytest.mark.parametrize(
    "body",
    [
        "#ifdef A\n\tif(a){\n#else\n\tif(!a){\n#endif\n\t\tg();\n\t}",
        "#ifdef A\n\tif(a){\n#endif\n\tg();\n#ifdef A\n\t}\n#endif",
        "\tif(a){\n\t\tg();\n#ifdef A\n\t}else if(b){\n\t\th();\n#endif\n\t}",
        "\tif(a) g();\n#ifdef A\n\telse h();\n#endif",
        "#ifdef A\n#ifdef B\n\tif(a)\n#endif\n\t{\n\t\tg();\n\t}\n#endif\n"
        "#if B\n\tif(a){\n\t\tg();\n\t}else\n#endif\n\t{\n\t\th();\n\t}",
        "#if 0\n\tif(a){{\n#elif B\n\tif(a){\n#else\n#endif\n\t}",
        "\tg(\"}\", '{', '\\'', \"\\\"{\"); // {\n\t/* { */\n"
        "#ifdef A /* {\n*/\n\tif(a){ // '\n#endif\n#if B\n\t}\n#endif",
        "#define OPEN {\\\n\t{\n#  if A\n\tif(a){\n#  endif\n\t}",
    ],
    ids=["else", "twice", "chain", "else-alone", "nested", "zero", "no-code", "define"],
)
@pytest.mark.parametrize("suffix", [".c", ".cpp"])
def test_functions_around_a_split_statement_are_whole(
    tmp_path: Path, suffix: str, body: str
) -> None:
    source = FUNCTION.format(body=body)
    last = 4 + body.count("\n")

    expected = [("f", 1, last), ("after", last + 2, last + 5)]
    assert [row for row in rows(tmp_path / f"one{suffix}", source) if row[0] != "OPEN"] == expected


def test_whole_branches_all_have_their_definitions(tmp_path: Path) -> None:
    source = "#ifdef A\nint f(void) { return 1; }\n#else\nint g(void) { return 2; }\n#endif\n"

    assert resolved(source.encode()) == source.encode()
    assert rows(tmp_path / "one.c", source) == [("f", 2, 2), ("g", 4, 4)]


def test_a_header_for_both_languages_is_read_as_c(tmp_path: Path) -> None:
    source = (
        '#ifdef __cplusplus\nextern "C" {\n#endif\nstruct s {\n\tint a;\n};\n'
        "#if defined(__cplusplus)\n}\n#endif\n"
    )

    assert b"extern" not in resolved(source.encode())
    assert rows(tmp_path / "one.h", source) == [("s", 4, 6)]


def test_the_text_of_a_definition_is_what_the_file_says(tmp_path: Path) -> None:
    source = FUNCTION.format(body="#ifdef A\n\tif(a){\n#else\n\tif(!a){\n#endif\n\t}")
    first, *_ = documents_of(tmp_path, ".c", source)

    assert first.body == source[: source.index("\n\nint after")]


@given(
    st.lists(
        st.sampled_from(
            "#if A|#if 0|#ifdef __cplusplus|#else|#elif B|#endif|#define C {\\|{|}|;|else"
            "|\"|'|/*|*/|//|\\|\r|\n|x".split("|")
        )
    ).map("\n".join)
)
def test_only_characters_become_spaces(source: str) -> None:
    content = resolved(source.encode())

    assert len(content) == len(source.encode())
    pairs = list(zip(content, source.encode(), strict=True))
    assert all(now == was or (now == 32 and was not in b"\r\n") for now, was in pairs)


@pytest.mark.parametrize(
    "piece",
    [b'"\\', b"'\\", b"/*", b"#if A\n", b"#if A\n{\n", b"#if A\n{\n#endif\n", b"#if /*", b"{" * 9],
    ids="quotes apostrophes comments open open-braces closed directive brace".split(),
)
def test_hostile_files_take_no_time_to_speak_of(piece: bytes) -> None:
    # They take a tenth of a second; were it the square of that, this would take hours.
    source = b"#if A\n" + piece * (200_000 // len(piece))

    assert len(resolved(source)) == len(source)
