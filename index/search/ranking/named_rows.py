"""Rows that a query names exactly: by id, title, code or place, or by the symbol that they define."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from purlin.index.distinct import sorted_distinct
from purlin.index.records import Kind
from purlin.index.search.arrays import NO_ROWS, Rows
from purlin.index.search.contracts import DocumentStore, LexicalRetriever
from purlin.index.search.lexical.tokens import tokens
from purlin.index.search.ranking import repository
from purlin.index.search.ranking.places import endings, in_frame, places
from purlin.index.search.ranking.uses import Relation, relation_in
from purlin.index.texts.product_fields import codes_of, is_code, letters_and_digits, spellings
from purlin.index.texts.quantities import quantities

# A code as a number, which has no leading zeros and fits in 64 bits.
_NUMBER = re.compile(r"[1-9][0-9]{3,17}")
# A code, such as a barcode or a model number, has a digit or a mark. With fewer than four characters, it
# is more often a size or a count.
_CODE = re.compile(r"(?=[^-_./0-9]{,63}[-_./0-9])\S{4,64}")
# A few words with a digit may be a code in another spelling; so many passages are compared with it.
_SPLIT_CODE = re.compile(r"(?=.{5,40}$)(?=\D*\d)[A-Za-z0-9]+(?:[-_./ ]{1,3}[A-Za-z0-9]+){0,5}")
_CODES_COMPARED = 20
# Letters and digits of a code beside other words, where few digits are rather a size or a count.
_CODE_WITHIN = re.compile(r"(?=.*\d)(?=.*[^\W\d_]).{4,}|\d{5,}")
# A token that may be a code. It is rare in so few passages, or with this idf: in one of 500.
_CODE_TOKEN = re.compile(r"(?=\D*\d)[a-z0-9]{4,64}")
_FEW, _RARE_IDF = 20, 6.2
_MOST_CODES = 20  # of a query, each of which is looked up
_PIECE = re.compile(r"[^\W_]+")
_MOST_PIECES, _MOST_PIECES_OF_CODE = 24, 6
_MAX_CODED = 200  # passages by one field
_MAX_OF_NAME = 500  # passages of what has the name of a function in a stack trace


@dataclass(frozen=True, slots=True)
class NamedRows:
    """Finds the passages of a corpus that a query names exactly.

    `_weights` maps a query to its tokens, each with its idf, as the lexical retriever needs them.
    """

    _kind: Kind
    _documents: DocumentStore
    _lexical: LexicalRetriever
    _weights: Callable[[str], Mapping[str, float]]

    def named(self, query: str) -> Rows:
        """Return the rows whose id, title or code is the query; titles of code have dots as separators.

        In code, also those at the files and lines that the query names, as stack traces do.
        """
        rows = self._documents.rows_named(query)
        if self._kind == "product":
            rows = sorted_distinct(np.concatenate([rows, self._coded(query)]))
            rows = rows if len(rows) else self._coded_alike(query)
            return rows if len(rows) else self._coded_within(query)

        title = ".".join(repository.names_of(query))
        if self._kind == "code" and title not in ("", query):
            rows = np.concatenate([rows, self._documents.rows_named(title)])
        if self._kind == "code" and "path" in self._documents.field_types:
            rows = np.concatenate([rows, *itertools.starmap(self._at, places(query).items())])
        return sorted_distinct(rows)

    def defining(self, query: str) -> Rows:
        """Return the rows whose last name is the query's, if that is a symbol; as many as are ranked."""
        names = repository.names_of(query)
        if not names or "name" not in self._documents.field_types:
            return NO_ROWS
        return self._documents.rows_where({"name": names[-1]}, repository.DEPTH)

    def relation(self, query: str) -> Relation | None:
        """Return the relation to a symbol that the query asks for, if it is a symbol."""
        relation = relation_in(query)
        if relation is None:
            return None
        is_symbol = repository.is_telling(relation.name) or len(self.defining(relation.name))
        return relation if is_symbol else None

    def has_code(self, query: str) -> bool:
        """Return whether a word of the query is a code that some passages have, but few."""
        in_quantities = {
            token for quantity in quantities(query) for token in tokens(quantity.spelling)
        }
        codes = (
            (token, idf)
            for token, idf in self._weights(query).items()
            if token not in in_quantities and _CODE_TOKEN.fullmatch(token)
        )
        return any(itertools.starmap(self._is_rare, itertools.islice(codes, _MOST_CODES)))

    def _is_rare(self, token: str, idf: float) -> bool:
        """Return whether a token is in some passages, and in few or a small share of them."""
        count = len(self._lexical.search({token: idf}, _FEW)[0])
        return 0 < count < _FEW or (count == _FEW and idf >= _RARE_IDF)

    def _at(self, path: str, functions: Mapping[int, str]) -> Rows:
        """Return the rows of what is at some lines of the file that a path ends with.

        `functions` maps each line to the function that a stack trace has there, or to "".
        """
        rows = self._in_file(path, [name for name in functions.values() if name])
        documents = [stored.document for stored in self._documents.fetch(rows.tolist())]
        at_lines = (in_frame(documents, *each) for each in functions.items())
        ids = {document.id for document in at_lines if document is not None}
        return rows[[document.id in ids for document in documents]]

    def _in_file(self, path: str, functions: Sequence[str]) -> Rows:
        """Return the rows of the file that a path ends with.

        Without one, those of these functions in files whose paths end as it does: a package may be below
        `src/`, and Java's frames have no more than the name of a file.
        """
        existing = self._documents.existing_paths(endings(path))
        longest = next((ending for ending in endings(path) if ending in existing), None)
        if longest is not None:
            return self._documents.rows_where({"path": longest})
        if not functions or "name" not in self._documents.field_types:
            return NO_ROWS

        rows = self._documents.rows_where({"name": functions}, _MAX_OF_NAME)
        files = self._documents.details(self._documents.document_of(rows)).paths
        masks = (
            np.array([f"/{file}".endswith(f"/{ending}") for file in files], dtype=np.bool_)
            for ending in endings(path)
        )
        return next((rows[is_in_file] for is_in_file in masks if is_in_file.any()), NO_ROWS)

    def _coded(self, query: str) -> Rows:
        """Return the rows with the query as a code, such as a barcode; a word of letters is no code."""
        if not _CODE.fullmatch(query):
            return NO_ROWS

        codes = [*spellings(query), query.upper(), query.casefold()]
        numbers = [int(code) for code in codes if _NUMBER.fullmatch(code)]
        rows = [
            self._documents.rows_where({name: [*codes, *numbers]}, _MAX_CODED)
            for name in self._documents.field_types
            if is_code(name)
        ]
        return np.concatenate([NO_ROWS, *rows])

    def _coded_alike(self, query: str) -> Rows:
        """Return the rows with a code of the query's letters and digits: AB-12 for "ab 12" and "ab12"."""
        if not _SPLIT_CODE.fullmatch(query):
            return NO_ROWS

        joined = letters_and_digits(query)
        rows, _ = self._lexical.search(self._weights(f"{query} {joined}"), _CODES_COMPARED)
        stored = self._documents.fetch(rows.tolist())
        is_alike = [joined in map(letters_and_digits, codes_of(each.document)) for each in stored]
        return np.union1d(rows[np.array(is_alike, dtype=np.bool_)], self._coded(joined))

    def _coded_within(self, query: str) -> Rows:
        """Return the rows with a code that is among the query's words, and with all its other words.

        "acme ab12" names AB-12 of Acme; "case for ab12" does not, unless no passage has "case".
        """
        spans = _codes_within(query)
        if not spans:
            return NO_ROWS

        rows, _ = self._lexical.search(self._weights(query), _CODES_COMPARED)
        rows_by_span: dict[tuple[int, int], list[int]] = {}
        for row, stored in zip(rows.tolist(), self._documents.fetch(rows.tolist()), strict=True):
            for code in spans.keys() & set(map(letters_and_digits, codes_of(stored.document))):
                rows_by_span.setdefault(spans[code], []).append(row)
        complete_rows = [
            self._with_all_words(f"{query[:start]} {query[end:]}", np.array(coded))
            for (start, end), coded in rows_by_span.items()
        ]
        return sorted_distinct(np.concatenate([NO_ROWS, *complete_rows]))

    def _with_all_words(self, words: str, rows: Rows) -> Rows:
        """Return those of the rows that have all tokens of the words, except tokens that no passage has."""
        weights = self._weights(words)
        absent = [weights.keys() - parts.keys() for parts in self._lexical.explain(weights, rows)]

        existing = {
            token
            for token in set().union(*absent)
            if len(self._lexical.search({token: weights[token]}, 1)[0])
        }

        return rows[[existing.isdisjoint(tokens) for tokens in absent]]


def _codes_within(query: str) -> dict[str, tuple[int, int]]:
    """Return what may be codes in a query, as `letters_and_digits`, and where each begins and ends."""
    pieces = list(_PIECE.finditer(query))
    if len(pieces) > _MOST_PIECES:
        return {}

    spans = {}
    for first, last in itertools.combinations_with_replacement(range(len(pieces)), 2):
        start, end = pieces[first].start(), pieces[last].end()
        code = letters_and_digits(query[start:end])
        if last - first < _MOST_PIECES_OF_CODE and _CODE_WITHIN.fullmatch(code):
            spans[code] = start, end

    return spans
