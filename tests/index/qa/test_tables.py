from purlin.index.qa.tables import named_cells

LIMITS = """Limits of the store.

what | limit
key size | 4 KiB
value size | 64 MiB
open readers | 126 | of all processes

Other things

max_size | 10 | bytes
"""


def named(question: str) -> list[tuple[str, bool]]:
    cells = named_cells(LIMITS, frozenset(question.split()))
    return [(LIMITS[start:end], is_asked_for) for (start, end), is_asked_for in cells]


def test_a_row_is_named_by_the_words_of_its_first_cell() -> None:
    assert named("maximum key size") == [("4 KiB", False)]
    assert named("limit of the value size") == [("64 MiB", True)]
    assert named("what is the size") == [("4 KiB", False), ("64 MiB", False)]
    assert named("how many databases") == []


def test_a_row_with_more_cells_than_heads_is_left_out() -> None:
    assert named("open readers") == []


def test_a_table_that_begins_with_a_named_row_has_no_heads() -> None:
    assert named("max_size") == [("10", False), ("bytes", False)]
