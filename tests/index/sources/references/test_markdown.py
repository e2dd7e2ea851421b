"""Markdown becomes documents, well-formed and not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from purlin.index.sources.references import markdown
from purlin.index.sources.references.html.reader import read_page
from tests.support.files import write_tree
from tests.support.references import REFERENCE, by_id, page, read


def test_markdown_is_utf8_with_any_line_ends(tmp_path: Path) -> None:
    text = "---\r\ntitle: Loom\r\n---\r\n\r\nCafé:\r\n\r\n    <meta charset=latin-1>\r\n"
    (tmp_path / "a.md").write_bytes(text.encode())
    [document], _ = read(tmp_path)
    assert document.body == "Café:\n\n<meta charset=latin-1>"
    assert document.title == "Loom"


def test_front_matter_titles_a_page_without_a_heading(tmp_path: Path) -> None:
    yaml = (
        "id: a\ntitle: 'Looms'\n---\nimport Tabs from '@theme/Tabs';\n\nOne.\n\n## Set up\n\nTwo.\n"
    )
    toml = '+++\ntitle = "Wool"\n+++\nThree.\n'
    own = "---\ntitle: >-\n  Other\n---\n# Own\n\nFour.\n"
    write_tree(tmp_path, {"yaml.mdx": f"---\n{yaml}", "toml.md": toml, "own.md": own})
    documents = {document.title: document for document in by_id(tmp_path).values()}
    expected = {"Looms": "One.", "Set up": "Two.", "Wool": "Three.", "Own": "Four."}
    assert {title: document.body for title, document in documents.items()} == expected
    assert documents["Set up"].fields["headings"] == ("Looms",)


def test_markdown_sections_code_and_tables() -> None:
    documents = by_id(REFERENCE / "markup" / "guide.md")
    assert {name: document.body for name, document in documents.items()} == {
        "guide.md#weaving-guide": "Before you start, read this.",
        "guide.md#set-up": "def loom():\n\n    return 1\n\nName | Use\nwarp | long",
        "guide.md#set-up-1": "- first\n- second",
    }
    assert documents["guide.md#set-up"].fields["headings"] == ("Weaving guide",)


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ('The [`pump`](https://pumps.example/a "A pump")', "the-pump"),
        ("![Hand pump](images/hand.png) Pumps", "-pumps"),
        ("[Pumps][1]", "pumps"),
        ('<a name="old"></a>Pumps &amp; *wells*', "pumps--wells"),
        (r"read\_all", "read_all"),
    ],
)
def test_ids_of_markdown_headings_are_of_their_text(heading: str, anchor: str) -> None:
    html = markdown.html(f"# {heading}\n\nText.\n\n[1]: https://pumps.example/b\n")
    assert read_page(html).sections[0].anchor == anchor


@pytest.mark.parametrize(
    ("heading", "title", "anchor"),
    [
        ("Pumps {#well}", "Pumps", "well"),
        ("`pump()` { #well-1.a .wide }", "pump", "well-1.a"),
        ("Pumps {: .no_toc }", "Pumps", "pumps"),
        ("Pumps {name}", "Pumps {name}", "pumps-name"),
        ("Pumps {}", "Pumps {}", "pumps-"),
    ],
)
def test_attributes_of_markdown_headings_are_no_text(heading: str, title: str, anchor: str) -> None:
    (section,) = read_page(markdown.html(f"## {heading}\n\nText.\n")).sections
    assert (section.title, section.anchor) == (title, anchor)


NOTES = """\
# Page

!!! warning "Upper bound"
    At most 16 MB.

    ```python
    send(1)
    ```

    ??? note
        Or 32.

!!! danger ""
    No title.

=== "Linux"

    Run it.

Between.

:::note
Zero waits.
:::

::: tip Mind [the gap]
Retries count.
:::

````{seealso}
```sh
:::note
    !!! note
```
Below.
````

> [!IMPORTANT]
> Set the port.

1. First

    !!! tip
        In a list.

::: package.module
"""


def test_notes_of_markdown_are_paragraphs_below_their_titles() -> None:
    ((_, body),) = page(markdown.html(NOTES))
    assert body.split("\n\n") == [
        "Upper bound",
        "At most 16 MB.",
        "send(1)",
        "Note",
        "Or 32.",
        "No title.",
        "Linux",
        "Run it.",
        "Between.",
        "Note",
        "Zero waits.",
        "Mind [the gap]",
        "Retries count.",
        "See also",
        ":::note\n    !!! note",
        "Below.",
        "Important",
        "Set the port.",
        "1. First",
        "Tip",
        "In a list.",
        "::: package.module",
    ]


def test_ids_of_markdown_headings_are_unique() -> None:
    headings = ["Pumps", "Pumps", "Pumps-1", "Pumps", "Pumps-1"]
    html = markdown.html("".join(f"# {heading}\n\nText.\n\n" for heading in headings))
    expected = ["pumps", "pumps-1", "pumps-1-1", "pumps-2", "pumps-1-2"]
    assert [section.anchor for section in read_page(html).sections] == expected


def test_deep_lists_of_markdown_keep_their_text() -> None:
    text = "".join(f"{'  ' * depth}- item{depth}\n" for depth in range(90))
    ((_, body),) = page(markdown.html(text))
    assert re.findall(r"item(\d+)", body) == [str(depth) for depth in range(90)]


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "text",
    [
        ">" * 100_000,
        "> - " * 20_000,
        "[" * 20_000,
        "![" * 10_000,
        "[a](" * 20_000,
        "# A\n# A-1\n" * 2_000,
        "".join(f"{'  ' * depth}- a\n" for depth in range(500)),
        "".join(f"{'    ' * depth}!!! a\n" for depth in range(500)),
        "!!! a" + " " * 200_000 + '"b',
        "> " * 100_000 + "[!a",
        ":::a" + " [" * 25_000,
        "# a" + " {#" * 50_000,
    ],
)
def test_hostile_markdown_is_read_in_time(text: str) -> None:
    assert markdown.html(text)
