"""Files of a repository: their digests, stamps and what cannot be read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from purlin.index.records import Document, Secondary, Skipped, SourceFile
from purlin.index.sources.code.languages import BY_SUFFIX
from purlin.index.sources.code.repository import files
from purlin.index.sources.files import MAX_FILE_BYTES, FileContent, read_bounded
from tests.support.code_documents import documents, documents_of, read, read_text
from tests.support.files import write_tree as write


def listed(path: Path, **options: object) -> dict[str, SourceFile]:
    items = files(path, **options)  # type: ignore[arg-type]
    return {item.path: item for item in items if isinstance(item, SourceFile)}


def test_byte_order_mark_and_carriage_returns(tmp_path: Path) -> None:
    (document,) = read_text(
        tmp_path, ".py", b'\xef\xbb\xbfdef f():\r\n    """D\xc3\xb6c."""\r\n    return 1\r\n'
    )

    assert isinstance(document, Document)
    assert document.body == 'def f():\r\n    """Döc."""\r\n    return 1'
    assert (document.summary, document.location.start_line, document.location.end_line) == (
        "Döc.",
        1,
        3,
    )


def test_code_is_read_without_comments_whose_encoding_cannot_be_told(tmp_path: Path) -> None:
    note, document, *_ = read_text(
        tmp_path, ".c", b"int a;\n/* \xb9\xfe\xb9\xfe */\nint load() { return 0; }\n"
    )

    assert isinstance(note, Skipped)
    assert (note.reason.partition(" ")[0], note.line) == ("read", 2)
    assert isinstance(document, Document)
    assert (document.title, document.location.start_line) == ("load", 3)


@pytest.mark.parametrize(
    ("content", "reason", "line"),
    [
        (b"x = 1\ny = '\x81\x81\x81\x81\x81\x81\x81'\n", "not UTF-8", 2),
        (b"x = 1\n\0\n", "binary", None),
        (b"#" * (MAX_FILE_BYTES + 1), "larger than 2 MiB", None),
    ],
)
def test_file_that_is_not_text_is_skipped(
    tmp_path: Path, content: bytes, reason: str, line: int | None
) -> None:
    (item,) = read_text(tmp_path, ".py", content)
    assert isinstance(item, Skipped)
    assert (item.path, item.line) == ("one.py", line)
    assert reason in item.reason


def test_a_bundle_of_one_line_is_one_document(tmp_path: Path) -> None:
    functions = [f"function f{number}(a,b){{return a[{number}]+b}}" for number in range(100)]
    (bundle,) = documents_of(tmp_path, ".js", "".join(functions))
    assert (bundle.title, bundle.fields["kind"]) == ("one.js", "text")
    assert bundle.body == "".join(functions)

    # With a line for each, and where they are few, they are read one by one.
    assert len(documents_of(tmp_path, ".js", "\n".join(functions))) == 100
    assert len(documents_of(tmp_path, ".js", "".join(functions[:20]))) == 20


def test_file_changed_after_listing_is_skipped(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "def f(): pass", "b.py": "def g(): pass"})
    gone, changed = files(tmp_path)

    assert isinstance(gone, SourceFile)
    assert isinstance(changed, SourceFile)

    (tmp_path / "a.py").unlink()
    (tmp_path / "b.py").write_text("def h(): pass")

    assert list(gone.read()) == [
        Skipped("a.py", "cannot be read: No such file or directory", passing=True)
    ]

    reason = "changed while it was being read; build again to include it"

    assert list(changed.read()) == [Skipped("b.py", reason, passing=True)]


def test_digest_covers_content_name_and_options(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "def f(): pass", "b.py": "def f(): pass", "c/a.py": "def g(): pass"})

    def digests(root: Path, secondary: Secondary = "demote") -> list[str]:
        return [
            file.digest for file in files(root, secondary=secondary) if isinstance(file, SourceFile)
        ]

    assert digests(tmp_path) == digests(tmp_path)

    every = digests(tmp_path) + digests(tmp_path / "c") + digests(tmp_path, "leave-out")

    assert len(set(every)) == len(every) == 7


def test_a_file_with_its_stamp_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"a.py": "def f(): pass", "b.py": "def g(): pass"})
    monkeypatch.setattr("purlin.index.sources.files.RACY_NS", -(10**12))
    listing = listed(tmp_path)
    stamps = {path: (file.stamp, file.digest) for path, file in listing.items() if file.stamp}
    assert set(stamps) == {"a.py", "b.py"}

    opened: list[str] = []

    def read_and_note(path: Path, name: str) -> FileContent | Skipped:
        opened.append(name)
        return read_bounded(path, name)

    monkeypatch.setattr("purlin.index.sources.code.repository.read_bounded", read_and_note)

    unchanged = listed(tmp_path, digests=stamps)

    assert opened == []
    assert [(f.digest, f.stamp) for f in unchanged.values()] == [
        (f.digest, f.stamp) for f in listing.values()
    ]
    assert [document.id for document in unchanged["a.py"].read()] == ["a.py::f"]  # type: ignore[union-attr]

    # Of the same size, and with the time of the last write set back.
    times = (tmp_path / "b.py").stat()
    (tmp_path / "b.py").write_text("def h(): pass")
    os.utime(tmp_path / "b.py", ns=(times.st_atime_ns, times.st_mtime_ns))
    opened.clear()

    changed = listed(tmp_path, digests=stamps)

    assert opened == ["b.py"]
    assert changed["b.py"].digest != listing["b.py"].digest


def test_digests_of_other_options_are_not_reused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"tests/a.py": "def f(): pass", "b.py": "def f(): pass"})
    monkeypatch.setattr("purlin.index.sources.files.RACY_NS", -(10**12))
    stamps = {path: (file.stamp, file.digest) for path, file in listed(tmp_path).items()}

    assert set(listed(tmp_path, digests=stamps)) == {"tests/a.py", "b.py"}
    assert set(listed(tmp_path, digests=stamps, secondary="leave-out")) == {"b.py"}


def test_a_grammar_that_was_installed_since_reads_its_files_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"a.dart": "int f() => 1;", "b.py": "def f(): pass"})
    monkeypatch.setattr("purlin.index.sources.files.RACY_NS", -(10**12))
    with monkeypatch.context() as before:
        before.delitem(BY_SUFFIX, ".dart")
        listing = listed(tmp_path)
        assert [document.id for document in listing["a.dart"].read()] == ["a.dart::(text)"]  # type: ignore[union-attr]

    stamps = {path: (file.stamp, file.digest) for path, file in listing.items() if file.stamp}
    again = listed(tmp_path, digests=stamps)
    assert again["a.dart"].digest != listing["a.dart"].digest
    assert [document.id for document in again["a.dart"].read()] == ["a.dart::f"]  # type: ignore[union-attr]
    assert again["b.py"].digest == listing["b.py"].digest


def test_a_file_that_has_just_changed_has_no_stamp(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "def f(): pass"})
    assert listed(tmp_path)["a.py"].stamp is None


def test_slow_parse_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("purlin.index.sources.code.syntax.PARSE_SECONDS", 0)
    source = "def f(): pass\n" * 5000
    first, *windows = read_text(tmp_path, ".py", source)

    assert first == Skipped("one.py", "takes more than 5 s to parse", passing=True)
    assert "\n".join(window.body for window in windows if isinstance(window, Document)) == (
        source.rstrip("\n")
    )


def test_a_file_of_an_unknown_kind_is_read_if_it_is_named(tmp_path: Path) -> None:
    write(tmp_path, {"notes.xyz": "hello", "image.png": "hello"})
    assert read(tmp_path) == []
    (document,) = documents(tmp_path / "notes.xyz")
    assert (document.title, document.body) == ("notes.xyz", "hello")
    assert read(tmp_path / "image.png") == [Skipped("image.png", "not text")]
