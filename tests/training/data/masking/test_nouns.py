from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from purlin.training.data.masking.nouns import shared_nouns


def marked(title: str, body: str) -> list[str]:
    return [body[span.start : span.end] for span in shared_nouns(title, body)]


def test_nouns_that_title_and_body_share_are_marked() -> None:
    title = "The Compact TN-2420X Toner Cartridges for Pagewell printers, foldable, 500 pages, 12mm"
    body = "A compact toner for the TN-2420X: one cartridge, foldable, prints 500 pages on a Pagewell printer, 12mm"
    assert marked(title, body) == ["toner", "TN-2420X", "cartridge", "pages", "Pagewell", "printer"]
    assert marked("Drive", "a drive that drives easily") == ["drive", "drives"]
    assert marked("", "nothing") == []


@settings(max_examples=100)
@given(st.text(max_size=40), st.text(max_size=80))
def test_noun_spans_are_ordered_inside_the_body(title: str, body: str) -> None:
    spans = shared_nouns(title, body)
    ends = [0, *(offset for span in spans for offset in (span.start, span.end))]
    assert ends == sorted(ends)
    assert ends[-1] <= len(body)
