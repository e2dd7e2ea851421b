"""Files of a manual: which are read, how they are decoded, and their digests."""

from __future__ import annotations

from pathlib import Path

import pytest

from purlin.index.errors import InvalidInput, NotFound
from purlin.index.records import Document, Skipped, SourceFile
from purlin.index.sources.references import manual
from tests.support.files import write_tree
from tests.support.references import by_id, only_skipped, read


@pytest.mark.parametrize("name", ["theindex.html", "classIndex.html", "all-documents.html"])
def test_indexes_are_no_pages(tmp_path: Path, name: str) -> None:
    page = "<h1>Tides</h1><p>They come twice.</p>"
    documents, _ = read(write_tree(tmp_path, {"tides.html": page, name: page}))
    assert [document.location.path for document in documents] == ["tides.html"]


def test_pages_that_lead_to_another_or_list_source_are_left_out(tmp_path: Path) -> None:
    moved = '<meta http-equiv="Refresh" content="0; URL=b.html"><p>Moved.</p>'
    live = '<meta http-equiv="refresh" content="60"><p>Live.</p>'
    pages = {"a.html": moved, "live.html": live, "team-members.html": "<p>We.</p>"}
    pages["class-use/Tank.html"] = "<p>Uses.</p>"
    for name in ("tank_8h_source.html", "classTank-members.html", "tank.rs.html", "index-all.html"):
        pages[name] = "<p>Listing.</p>"
    write_tree(tmp_path, pages)
    assert {document.body for document in by_id(tmp_path).values()} == {"Live.", "We."}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\x89PNG\r\n\0\0\0", "binary"),
        ("<p>файл</p>".encode("koi8-r"), "not utf-8 text (byte 3)"),
        (b"<meta charset=utf-8><p>caf\xe9</p>", "not utf-8 text (byte 26)"),
        (b"<meta charset=zlib><p>caf\xe9", "not utf-8 text"),
        (b"\xff\xfea", "not utf-16 text"),
    ],
)
def test_undecodable_pages_are_skipped_with_the_reason(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    (tmp_path / "page.html").write_bytes(content)
    assert reason in only_skipped(tmp_path)


@pytest.mark.parametrize("name", ["page.html", "page.md", "page.1"])
def test_utf16_without_a_mark_is_read(tmp_path: Path, name: str) -> None:
    head = ".TH PAGE 1\n.SH Moors\n" if name == "page.1" else "<p>"
    (tmp_path / name).write_bytes(f"{head}The ferry moors at nine – or later.".encode("utf-16-le"))
    ((document,), skipped) = read(tmp_path)
    assert (document.body, skipped) == ("The ferry moors at nine – or later.", [])


@pytest.mark.parametrize("codec", ["euc_jp", "cp932", "iso2022_jp", "utf-8"])
@pytest.mark.parametrize("name", ["page.html", "page.md", "page.rst", "page.adoc", "page.1"])
def test_japanese_is_read_whatever_its_encoding(tmp_path: Path, name: str, codec: str) -> None:
    text = "既定値は 30 です。\n接続が切れるまでの秒\n数を表します。\n"
    head = {"page.1": ".TH PAGE 1\n.SH 説明\n", "page.html": "<p>"}.get(name, "")
    (tmp_path / name).write_bytes(f"{head}{text}".encode(codec))
    ((document,), skipped) = read(tmp_path)
    assert (document.body, skipped) == ("既定値は 30 です。接続が切れるまでの秒数を表します。", [])


def test_markdown_that_is_not_utf8_is_decoded_where_its_encoding_can_be_told(
    tmp_path: Path,
) -> None:
    (tmp_path / "page.md").write_bytes("# Café\n\nDéjà vu.\n".encode("cp1252"))
    ((document,), skipped) = read(tmp_path)
    assert (document.title, document.body, skipped) == ("Café", "Déjà vu.", [])


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"<meta charset='iso-8859-1'><p>caf\xe9", "café"),
        (b"<meta charset='ISO-8859-1'><p>5 \x80 doesn\x92t", "5 € doesn’t"),
        (b"<meta charset=latin-1><p>\x96 \x81", "– \ufffd"),
        (b"<meta charset=us-ascii><p>caf\xe9", "café"),
        (b"<meta charset=utf-16><p>caf\xc3\xa9", "café"),
        (b"<meta charset=iso-8859-15><p>\xa4", "€"),
        (b"\xef\xbb\xbf<meta charset=iso-8859-1><p>caf\xc3\xa9", "café"),
        (
            b'<meta http-equiv="Content-Type" content="text/html; charset=Shift_JIS"><p>\x83\x89',
            "ラ",
        ),
        ("<p>naïve".encode("utf-16"), "naïve"),
        (b"\xef\xbb\xbf<p>bom", "bom"),
    ],
)
def test_declared_encodings_are_honoured(tmp_path: Path, content: bytes, text: str) -> None:
    (tmp_path / "page.html").write_bytes(content)
    [document] = read(tmp_path)[0]
    assert document.body == text


def test_page_over_the_limit_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manual, "MAX_PAGE_BYTES", 1000)
    write_tree(tmp_path, {"big.html": "<p>" + "x" * 1000, "small.html": "<p>x"})
    documents, skipped = read(tmp_path)
    assert [document.id for document in documents] == ["small.html"]
    assert [(skip.path, "1,000 bytes" in skip.reason) for skip in skipped] == [("big.html", True)]


def test_deleted_page_is_a_transient_skip(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("<p>text")
    [file] = manual.files(tmp_path)
    assert isinstance(file, SourceFile)
    (tmp_path / "a.html").unlink()
    assert list(file.read()) == [
        Skipped("a.html", "cannot be read: No such file or directory", passing=True)
    ]


def test_links_that_leave_the_root_are_not_followed(tmp_path: Path) -> None:
    write_tree(tmp_path, {"outside.html": "<p>secret", "root/sub/b.html": "<p>b"})
    root = tmp_path / "root"
    (root / "a.html").symlink_to(root / "sub" / "b.html")
    (root / "out.html").symlink_to(tmp_path / "outside.html")
    (root / "folder").symlink_to(tmp_path, target_is_directory=True)
    assert [document.id for document in read(root)[0]] == ["a.html", "sub/b.html"]


def test_wrong_roots_are_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="nowhere"):
        list(manual.files(tmp_path / "nowhere"))
    (tmp_path / "page.pdf").write_bytes(b"%PDF")
    with pytest.raises(InvalidInput, match=r"page\.pdf"):
        list(manual.files(tmp_path / "page.pdf"))


def test_digest_follows_content_and_unit(tmp_path: Path) -> None:
    def digest(**options: str) -> str:
        [file] = manual.files(tmp_path, **options)  # type: ignore[arg-type]
        assert isinstance(file, SourceFile)
        return file.digest

    path = tmp_path / "page.html"
    path.write_text("<p>one")
    before = digest()

    assert digest() == before
    assert digest(unit="page") != before

    path.write_text("<p>two")

    assert digest() != before


def test_links_lead_to_the_reference_on_the_web(tmp_path: Path) -> None:
    (tmp_path / "a b.html").write_text(
        "<h1>T</h1><dl class='py function'><dt id='f'>f(x)</dt><dd>Return x.</dd></dl>"
    )
    [file] = manual.files(tmp_path, base_url="https://example.org/3.11/")

    assert isinstance(file, SourceFile)
    assert [d.location.url for d in file.read() if isinstance(d, Document)] == [
        "https://example.org/3.11/a%20b.html#f"
    ]

    [relinked] = manual.files(tmp_path)

    assert isinstance(relinked, SourceFile)
    assert relinked.digest != file.digest


@pytest.mark.parametrize(
    ("page", "command"),
    [
        # mandoc, Asciidoctor and man2html.
        ("<title>LOOM(1)</title><h1>NAME</h1><p>Loom, reed - weave</p><h1>OPTIONS</h1>", "Loom"),
        ("<h1>loom(1) Manual Page</h1><h2>NAME</h2><p>loom - weave</p><h2>OPTIONS</h2>", "loom"),
        (
            "<h1>LOOM</h1>Section: User Commands (1)<h2>NAME</h2>loom - weave<h2>OPTIONS</h2>",
            "loom",
        ),
        # A page with such a heading is no manual page, nor one with the number alone.
        ("<h1>Loom</h1><h2>NAME</h2><p>Loom - weave</p><h2>OPTIONS</h2>", ""),
        ("<h1>loom(1)</h1><h2>Weave</h2><p>loom - weave</p><h2>OPTIONS</h2>", ""),
        ("<h1>loom(1)</h1><h2>NAME</h2><p>reed - weave</p><h2>OPTIONS</h2>", ""),
    ],
)
def test_entries_of_a_manual_page_in_html_know_their_command(
    tmp_path: Path, page: str, command: str
) -> None:
    (tmp_path / "loom.1.html").write_text(
        f"{page}<dl><dt>--[no-]knots[=N]</dt><dd>Knots.</dd></dl>"
    )
    documents, _ = read(tmp_path)
    assert documents[-1].context == ((command,) if command else ())
