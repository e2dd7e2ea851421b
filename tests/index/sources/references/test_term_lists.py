"""Items of Markdown's lists and rows of its tables that tell what a name is are entries."""

from __future__ import annotations

import pytest

from purlin.index.sources.references import markdown
from purlin.index.sources.references.html.reader import read_page
from purlin.index.sources.references.page_sections import Section


def sections(text: str) -> list[Section]:
    return read_page(markdown.html(text)).sections


def body(section: Section) -> str:
    return section.compose()[0]


@pytest.mark.parametrize(
    ("item", "names", "expected"),
    [
        ("`--quiet`: Says less.", ["--quiet"], "--quiet\n\nSays less."),
        ("**`--quiet`** - Says less.", ["--quiet"], "--quiet\n\nSays less."),
        ("`-w, --width <cm>` — The width.", ["-w", "--width"], "-w, --width <cm>\n\nThe width."),
        ("`-w` or `--width`: The width.", ["-w", "--width"], "-w or --width\n\nThe width."),
        (
            "`passes` (default: `1`) -- How often\n  it is woven.",
            ["passes"],
            "passes (default: 1)\n\nHow often it is woven.",
        ),
        (
            "`width` {number|null} The *width*. **Default:** `10`.",
            ["width"],
            "width {number|null}\n\nThe width. Default: 10.",
        ),
        ("`depth` (default: `3`). How deep.", ["depth"], "depth (default: 3)\n\nHow deep."),
        ("`depth` (no default) How deep.", ["depth"], "depth (no default)\n\nHow deep."),
        ("**depth** `number`: How deep.", ["depth"], "depth number\n\nHow deep."),
        ("`hem` (default `true`)", ["hem"], "hem\n\n(default true)"),
        ("`weave(thread)`: Makes cloth.", ["weave"], "weave(thread)\n\nMakes cloth."),
        ("`LOOM_HOME`: Where looms are.", ["LOOM_HOME"], "LOOM_HOME\n\nWhere looms are."),
    ],
)
def test_an_item_that_tells_what_a_name_is_is_an_entry(
    item: str, names: list[str], expected: str
) -> None:
    (entry,) = sections(f"# Loom\n\n## Options\n\n* {item}\n")
    assert entry.names == names
    assert entry.headings == ("Loom", "Options")
    assert entry.directive == ("function" if "(thread)" in item else "option")
    assert body(entry) == expected


@pytest.mark.parametrize(
    "item",
    [
        "`weave` is called first.",
        "`weave` (see below) is called first.",
        "`weave`",
        "[`--quiet`](#quiet): Says less.",
        "Returns: `cloth`",
        "`'wool'`: Is warm.",
        "`1`: One thread.",
        "`true`: It is woven.",
        "**Fast**: It is woven at once.",
        "**depth** is how deep it is.",
    ],
)
def test_other_items_are_prose(item: str) -> None:
    (section,) = sections(f"# Loom\n\n- {item}\n")
    assert section.directive == "section"
    assert body(section).startswith("- ")


def test_items_that_tell_nothing_of_a_name_stay_in_the_section() -> None:
    loom, width, height = sections(
        "# Loom\n\n- `width`: How wide.\n- Returns a loom.\n- `height`: How high.\n\nIt stands.\n"
    )
    assert body(loom) == "- Returns a loom.\n\nIt stands."
    assert (body(width), body(height)) == ("width\n\nHow wide.", "height\n\nHow high.")


def test_a_name_keeps_all_that_its_item_says() -> None:
    quilt, stitch = sections(
        "# Loom\n\n- `quilt`: Quilts.\n  - `'wool'`: Warm.\n\n  For cold days.\n"
        "  - `stitch`: How it is sewn.\n"
    )
    assert body(quilt) == "quilt\n\nQuilts.\n\n- 'wool': Warm.\n\nFor cold days."
    assert (stitch.title, stitch.context) == ("stitch", ("quilt",))


def test_parameters_stay_in_the_entry_of_a_call_and_its_options_are_entries() -> None:
    weave, width = sections(
        "# Loom\n\n## `weave(thread[, options])`\n\n* `thread` {Thread} What is woven.\n"
        "* `options` {Object}\n  * `width` {number} How wide. **Default:** `10`.\n\nMakes cloth.\n"
    )
    assert weave.directive == "function"
    assert "- thread {Thread} What is woven." in body(weave)
    assert body(weave).endswith("Makes cloth.")
    assert (width.title, width.directive) == ("width", "option")
    assert width.headings == ("Loom", "weave(thread[, options])")


def test_rows_that_tell_what_names_are_are_entries() -> None:
    width, height = sections(
        "# Loom\n\n## Options\n\n| Option | Type | Default | Description |\n|---|---|---|---|\n"
        "| **`-w`, `--width`** (cm) | `number` | `140` | How *wide*. |\n| `--height` | | | How high. |\n"
    )
    assert (width.names, width.directive) == (["-w", "--width"], "option")
    assert body(width) == "-w, --width (cm)\n\nHow wide.\n\nType: number\n\nDefault: 140"
    assert body(height) == "--height\n\nHow high."


def test_cells_stand_below_the_words_of_their_heads() -> None:
    (width,) = sections(
        "| Name | | [By `default`](d.html) |\n|---|---|---|\n| `width` | How wide it is. | 10 |\n"
    )
    assert body(width) == "width\n\nHow wide it is.\n\nBy default: 10"

    (height,) = sections("| Name | Meaning | |\n|---|---|---|\n| `height` | How high. | 20 |\n")
    assert body(height) == "height\n\nHow high.\n\n20"


def test_words_alone_stand_below_their_heads() -> None:
    wool, _ = sections(
        "# Yarns\n\n| Yarn | Warm | Light |\n|---|---|---|\n| `wool` | yes | no |\n| `silk` | no | yes |\n"
    )
    assert body(wool) == "wool\n\nWarm: yes\n\nLight: no"


def test_a_link_at_the_end_of_an_item_is_closed() -> None:
    html = markdown.html("- `quilt`: See [there](a.html)\n")
    assert '<dd>See <a href="a.html">there</a></dd>' in html


@pytest.mark.parametrize(
    "table",
    [
        "| Name | Meaning |\n|---|---|\n| `width` | How wide. |\n| The height | How high. |",
        "| Name | Meaning |\n|---|---|\n| [`width`](#width) | How wide. |",
        "| Name | Meaning |\n|---|---|\n| `width` or so | How wide. |",
        "| Name | Meaning |\n|---|---|\n| `0` | It is woven. |",
        "| Name |\n|---|\n| `weave` |",
        "| Name | Meaning |\n|---|---|",
    ],
)
def test_other_tables_stay_tables(table: str) -> None:
    (section,) = sections(f"# Loom\n\n{table}\n")
    assert body(section).startswith("Name")


def test_a_table_of_parameters_stays_in_the_entry_of_a_call() -> None:
    (weave,) = sections(
        "## `weave(thread)`\n\n| Name | Meaning |\n|---|---|\n| `thread` | What is woven. |\n"
    )
    assert weave.directive == "function"
    assert body(weave).endswith("thread | What is woven.")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("piece", ["`a`, ", " (", " {a}", " <a", " |", "- ", "`a` (`b`) "])
def test_hostile_items_are_read_in_time(piece: str) -> None:
    assert markdown.html(f"- `a`{piece * 20_000}")
    assert markdown.html(f"- `a`{piece}\n" * 2_000)
    assert markdown.html("|A|B|\n|-|-|\n" + f"|`a`{piece.replace('|', '')}|b|\n" * 2_000)
