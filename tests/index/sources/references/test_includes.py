"""AsciiDoc pages are read with the files that they include, and only with those in reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from purlin.index.records import SourceFile
from purlin.index.sources.references import includes, manual
from tests.support.files import write_tree
from tests.support.references import read


def write(root: Path, **texts: str) -> Path:
    pages = {f"{name.replace('__', '/')}.adoc": text for name, text in texts.items()}
    return write_tree(root, pages)


def expand(root: Path, text: str) -> includes.Expanded:
    (root / "page.adoc").write_text(text)
    return includes.Expanded(text, root / "page.adoc", root)


def test_options_of_an_included_file_belong_to_the_command(tmp_path: Path) -> None:
    write(
        tmp_path,
        loom="loom(1)\n=======\n\nNAME\n----\nloom - weave\n\nOPTIONS\n-------\ninclude::parts/_knots.adoc[]\n",
        parts___knots="--knots=<n>::\n\tHow many knots.\n\ninclude::_more.adoc[]\n",
        parts___more="--tight::\n\tTighter.\n",
    )
    documents, skipped = read(tmp_path)
    assert skipped == []
    options = {item.title: item for item in documents if item.fields["directive"] == "option"}
    assert list(options) == ["--knots", "--tight"]
    assert {item.context for item in options.values()} == {("loom",)}
    # What is included and has no title is no page of its own.
    assert {item.location.path for item in documents} == {"loom.adoc"}


def test_a_page_with_a_title_stays_one_though_it_is_included(tmp_path: Path) -> None:
    write(
        tmp_path,
        all="= All\n\ninclude::part.adoc[leveloffset=+1]\n",
        part="// licence\n:toc:\n\n= Part\n\nText.\n\n== Inner\n\nMore.\n",
    )
    documents, _ = read(tmp_path)
    assert [(item.location.path, item.title) for item in documents] == [
        ("all.adoc", "Part"),
        ("all.adoc", "Inner"),
        ("part.adoc", "Part"),
        ("part.adoc", "Inner"),
    ]


def test_a_page_changes_with_what_it_includes(tmp_path: Path) -> None:
    write(tmp_path, page="= Page\n\ninclude::part.adoc[]\n", part="one\n")
    digests = []
    for text in ("one\n", "two\n"):
        write(tmp_path, part=text)
        digests.append(
            [file.digest for file in manual.files(tmp_path) if isinstance(file, SourceFile)]
        )
    assert digests[0] != digests[1]
    assert len(digests[0]) == 1


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("../outside.adoc", "outside the source's directory"),
        ("link.adoc", "outside the source's directory"),
        ("/etc/hostname", "no relative path"),
        ("https://example.org/a.adoc", "an address"),
        ("{parts}/a.adoc", "an attribute that the page does not define"),
        (".hidden.adoc", "a hidden file"),
        ("id_rsa", "may hold secrets"),
        ("page.adoc", "includes itself"),
        ("none.adoc", "no such file"),
        ("folder.adoc", "no such file"),
        ("binary.txt", "binary, not text"),
    ],
)
def test_what_is_not_followed_is_told(tmp_path: Path, target: str, reason: str) -> None:
    root = tmp_path / "source"
    (root / "folder.adoc").mkdir(parents=True)
    for outside in (tmp_path / "outside.adoc", root / ".hidden.adoc", root / "id_rsa"):
        outside.write_text("secret")
    (root / "link.adoc").symlink_to(tmp_path / "outside.adoc")
    (root / "binary.txt").write_bytes(b"secret\0")

    page = expand(root, f"before\ninclude::{target}[]\nafter")
    assert page.text == "before\nafter"
    remark = page.remark("page.adoc")
    assert remark is not None
    assert remark.reason.endswith(f": {target} ({reason})")


def test_a_file_that_may_be_missing_is_not_told(tmp_path: Path) -> None:
    assert expand(tmp_path, "include::none.adoc[opts=optional]").remark("page.adoc") is None


def test_a_page_is_not_included_in_itself(tmp_path: Path) -> None:
    write(tmp_path, a="a\ninclude::b.adoc[]\n", b="b\ninclude::a.adoc[]\n")
    page = includes.Expanded("a\ninclude::b.adoc[]", tmp_path / "a.adoc", tmp_path)
    assert (page.text, page.refused) == ("a\nb", ["a.adoc (includes itself)"])


def test_depth_count_and_size_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(includes.MAX_DEPTH + 3):
        write(tmp_path, **{f"deep{number}": f"{number}\ninclude::deep{number + 1}.adoc[]"})
    page = expand(tmp_path, "include::deep0.adoc[]")
    assert page.text.split("\n")[-1] == str(includes.MAX_DEPTH - 1)
    assert page.refused[0].endswith(f"(more than {includes.MAX_DEPTH} includes deep)")

    # Two includes in each of many files would read the last one 2**15 times.
    for number in range(15):
        write(tmp_path, **{f"wide{number}": f"include::wide{number + 1}.adoc[]\n" * 2})
    write(tmp_path, wide15="end")
    page = expand(tmp_path, "include::wide0.adoc[]")
    assert page.count == includes.MAX_INCLUDES
    assert len(page.remark("page.adoc").reason) < 1_000  # type: ignore[union-attr]

    monkeypatch.setattr(includes, "MAX_INCLUDED_BYTES", 100)
    write(tmp_path, long="x" * 101)
    assert expand(tmp_path, "include::long.adoc[]").refused == [
        "long.adoc (the page would be larger than 100 bytes)"
    ]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("", "1\n2\n3\n4\n"),
        ("lines=1", "1\n"),
        ('lines="1..3;8"', "1\n# tag::a[]\n2\n4\n"),
        ("lines=7..", "# end::a[]\n4\n"),
        ("tag=a", "2\n3\n"),
        ("tags=b", "3\n"),
        ("tags=a;b", "2\n3\n"),
        ("tag=c", ""),
        ("lines=x", ""),
    ],
)
def test_lines_and_tags_choose_what_is_included(tmp_path: Path, options: str, text: str) -> None:
    (tmp_path / "code.py").write_text(
        "1\n# tag::a[]\n2\n# tag::b[]\n3\n# end::b[]\n# end::a[]\n4\n"
    )
    page = expand(tmp_path, f"----\ninclude::code.py[{options}]\n----")
    assert page.text == f"----\n{text}----"


def test_targets_refer_to_attributes_of_the_page(tmp_path: Path) -> None:
    write(tmp_path, parts__a="A")
    assert expand(tmp_path, ":dir: parts\ninclude::{dir}/a.adoc[]").text == ":dir: parts\nA"


def test_a_listing_follows_the_includes_of_a_page_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, page="= Page\n\ninclude::part.adoc[]", part="Some text.")
    expanded: list[str] = []

    class Counted(includes.Expanded):
        def __init__(self, text: str, path: Path, root: Path) -> None:
            expanded.append(path.name)
            super().__init__(text, path, root)

    monkeypatch.setattr(includes, "Expanded", Counted)
    [file] = manual.files(tmp_path)
    assert expanded == ["page.adoc", "part.adoc"]

    write(tmp_path, part="Other text.")
    [changed] = manual.files(tmp_path)
    assert isinstance(file, SourceFile)
    assert isinstance(changed, SourceFile)
    assert file.digest != changed.digest
