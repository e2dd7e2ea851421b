from pathlib import Path

import pytest

from purlin.index.records import Skipped, SourceFile
from purlin.index.search.store.listing import IndexedFile, Listing
from purlin.index.workspaces.changes import Changes

KEPT = IndexedFile("kept.py", "k1", (3, 30), 0, 0)
# Its digest is empty: it has to be read again, but only a new stamp is a change.
UNCERTAIN = IndexedFile("uncertain.py", "", (4, 40), 0, 1)
LISTING = Listing([KEPT, UNCERTAIN], [Skipped("locked.py", "cannot be read")])
SAME: list[SourceFile | Skipped] = [
    SourceFile("kept.py", "k1", lambda: iter(()), (3, 30)),
    SourceFile("uncertain.py", "u1", lambda: iter(()), (4, 40)),
    Skipped("locked.py", "cannot be read"),
    Skipped("data.bin", "binary", by_choice=True),
]


def test_a_directory_as_it_was_indexed_has_no_changes(tmp_path: Path) -> None:
    assert not Changes.between(tmp_path, SAME, LISTING)


def test_new_and_changed_files_are_counted_with_the_bytes_of_the_new_ones(tmp_path: Path) -> None:
    (tmp_path / "new.py").write_bytes(b"x" * 12)
    changed = SourceFile("kept.py", "k2", lambda: iter(()), (5, 50))
    new = SourceFile("new.py", "n1", lambda: iter(()), (12, 60))
    gone_meanwhile = SourceFile("gone.py", "g1", lambda: iter(()), (7, 70))

    changes = Changes.between(tmp_path, [changed, *SAME[1:], new, gone_meanwhile], LISTING)
    assert changes == Changes(changed=3, new_bytes=12, has_lost=False)


@pytest.mark.parametrize(
    "sources",
    [
        pytest.param(SAME[1:], id="a file has gone"),
        pytest.param([*SAME[:2], SAME[3]], id="a file can be read again, and was left out"),
        pytest.param([*SAME, Skipped("other.py", "cannot be read")], id="one more cannot be read"),
    ],
)
def test_files_that_are_gone_or_unread_are_a_change(
    tmp_path: Path, sources: list[SourceFile | Skipped]
) -> None:
    changes = Changes.between(tmp_path, sources, LISTING)
    assert changes
    assert changes.changed == 0
