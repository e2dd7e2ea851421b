"""Reading pairs of any format that a recipe may name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from purlin.index.errors import InvalidInput, NotFound
from purlin.index.records import Skipped
from purlin.training.data.pairs.documents import (
    beir_pairs,
    code_pair,
    pairs_from_documents,
    product_pair,
    reference_pair,
)
from purlin.training.data.pairs.esci import esci_pairs
from purlin.training.data.pairs.packages import package_pairs
from purlin.training.data.pairs.pair import (
    SEARCH_FORMATS,
    Draft,
    Drafts,
    Pair,
    PairFormat,
    PairSource,
    clean,
)
from purlin.training.data.pairs.prompts import prompt_pairs
from purlin.training.data.pairs.question_pairs import (
    linked_pairs,
    question_set_pairs,
    template_pairs,
)
from purlin.training.data.pairs.rows import (
    corpus_pair,
    cosqa_pairs,
    pairs_from_rows,
    plain_pair,
    search_pairs,
)

_READERS: dict[PairFormat, Callable[[PairSource], Drafts]] = {
    "pairs": partial(pairs_from_rows, make_pair=plain_pair),
    "codesearchnet": partial(pairs_from_rows, make_pair=corpus_pair),
    "advtest": partial(pairs_from_rows, make_pair=corpus_pair),
    "cosqa": cosqa_pairs,
    "esci": esci_pairs,
    "beir": beir_pairs,
    "packages": package_pairs,
    "code": partial(pairs_from_documents, make_pair=code_pair),
    "product": partial(pairs_from_documents, make_pair=product_pair),
    "reference": partial(pairs_from_documents, make_pair=reference_pair),
    "templates": template_pairs,
    "questions": question_set_pairs,
    "linked": linked_pairs,
    "searches": search_pairs,
    "prompts": prompt_pairs,
}


def read_pairs(source: PairSource, *, allow_short: bool = False) -> Iterator[Pair | Skipped]:
    """Yield the source's pairs, cleaned, and a `Skipped` for everything that is not used.

    Short queries are kept if people typed them, or with `allow_short`. Raises NotFound at once if
    the path does not exist and, at the end, InvalidInput if the source has no usable pair.
    """
    # Not part of the generator, which would raise only when the first pair is read.
    if not source.path.exists():
        raise NotFound(f"There is no file or directory {source.path}.", field="path")
    return _read(source, allow_short or source.format in SEARCH_FORMATS)


def _read(source: PairSource, allow_short: bool) -> Iterator[Pair | Skipped]:
    kept = skipped = 0
    first_skipped: Skipped | None = None

    for draft in _READERS[source.format](source):
        item = draft if isinstance(draft, Skipped) else _clean_draft(draft, allow_short)
        yield item
        if isinstance(item, Skipped):
            first_skipped = first_skipped or item
            skipped += 1
            continue

        kept += 1
        if kept == source.limit:
            return

    # Reported by its first error, which is most likely that of every row.
    if not kept:
        reason = _why_empty(skipped, first_skipped)
        raise InvalidInput(
            f"{source.path} has no usable pair of format {source.format}: {reason}.", field="path"
        )


def _clean_draft(draft: Draft, allow_short: bool) -> Pair | Skipped:
    try:
        return clean(draft.pair, allow_short=allow_short)
    except InvalidInput as error:
        return Skipped(draft.path, error.message, draft.line)


def _why_empty(skipped: int, first: Skipped | None) -> str:
    if first is None:
        return "it is empty"
    line = f" (line {first.line})" if first.line else ""
    return f"{skipped:,} were skipped, the first{line}: {first.reason}"
