"""Queries for one more of a kind, and the code that all of the kind have in common.

"Add a new audio output driver" wants the type that drivers are of, and the lists that name them all: neither
needs to be near to the words of the query, but the drivers are.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from purlin.index.distinct import sorted_distinct
from purlin.index.records import Document
from purlin.index.search.arrays import Rows
from purlin.index.search.contracts import Allowed, DocumentStore, LexicalRetriever
from purlin.index.search.lexical.tokens import pieces, tokens
from purlin.index.search.ranking.roles import is_test
from purlin.index.search.store.filters import Filter, beginning_with

_BEGINNING = r"(?:(?:how|where) (?:to|do (?:i|we|you)|can (?:i|we)|should (?:i|we)) )?"
_NEW = r"(?:an? )?(?:(?:brand )?new|another|other|additional|custom|third[- ]party)"
# "Add a new entry to the list" is what a function does, unless it is said of what is made to be added to.
_VERB, _REST = (
    "add|implement|introduce|support",
    "for|of|in|like|that|which|with|from|so|by|using|via|as|and",
)
_EXTENSION_VERB, _EXTENSION_REST = f"{_VERB}|create|define|register|write", f"{_REST}|to|into|on"
_WORD = rf"(?!(?:{_EXTENSION_REST})\b)[\w.+#-]{{1,100}}"
_EXTENSION = (
    r"(?:adapters?|back-?ends?|connectors?|drivers?|exporters?|extensions?|importers?|integrations?"
    r"|middlewares?|plug-?ins?|providers?|subcommands?)"
)
_PURPOSE = r"(?: for (?:another|other|an? new) (?P<purpose>\w{1,100}(?: \w{1,100})?))?"
_ON_EXTENSION = re.compile(
    rf"{_BEGINNING}(?:{_EXTENSION_VERB}) (?:support for )?(?:{_NEW}|an?)"
    rf" (?P<kind>(?:{_WORD} ){{0,4}}?{_EXTENSION}){_PURPOSE}(?: (?:{_EXTENSION_REST})\b.{{0,200}})?",
    re.IGNORECASE,
)
_ON_KIND = re.compile(
    rf"{_BEGINNING}(?:{_VERB}) (?:support for )?{_NEW} (?:kind of |type of )?"
    rf"(?P<kind>{_WORD}(?: {_WORD}){{0,4}}){_PURPOSE}(?: (?:{_REST})\b.{{0,200}})?",
    re.IGNORECASE,
)

# How much of what its text lacks a type or a list gets, where all of it would be a name's.
_COMMON = 0.6
# The likeliest types, and the definitions of each that are read; the likeliest folders, and the
# passages and definitions of types in each.
_MOST_TYPES, _MOST_DEFINITIONS, _MOST_FOLDERS, _MOST_PASSAGES, _MOST_MEMBERS = 2, 20, 2, 2000, 200
# The names of a kind that are compared with lists, code that may be a list, and lists that count.
_MOST_SIBLINGS, _MOST_COMPARED, _MOST_LISTS = 40, 30, 2
# A list names so many of the kind, and such a share of them.
_LEAST_LISTED, _LEAST_SHARE = 3, 0.5
# Letters of a stem that another one may go on from.
_MIN_PREFIX = 5
# A name with the last word of a kind is as likely as one with so many times the share of its words.
_HEAD_WEIGHT = 3.0
# The longest head that is read, in characters.
_MAX_HEAD = 500

# Words of names that say that others are derived from it.
_GENERIC = frozenset(["abstract", "base", "default", "generic", "i", "interface", "standard"])
_OF_ANY_KIND = frozenset(tokens("type kind implementation class"))
# Possessive, so that a long name before a dot is not tried again at each of its lengths.
_IDENTIFIER = re.compile(r"[^\W\d]\w*+(?!::|\.|\\)")
_NAME = re.compile(r"[^\W\d]\w*")
_TYPES = ["class", "interface", "record", "struct", "trait", "type", "enum", "protocol", "object"]
_ABSTRACT = frozenset(["interface", "protocol", "trait"])
_CALLABLE = frozenset(["constructor", "function", "macro", "method", "module", "text"])


class Kind(NamedTuple):
    """What a query wants one more of: the words of it, and the last of them, all stemmed."""

    words: frozenset[str]
    head: str

    @property
    def is_of_tests(self) -> bool:
        """Whether it is a kind of tests, which otherwise are no examples of anything."""
        return "test" in self.words

    def share(self, name: str) -> float:
        """Return the share of a name's words that the kind has, weighted if the last word is among them."""
        words = _words(name)
        shared = [word for word in words if any(_is_alike(word, own) for own in self.words)]
        weight = _HEAD_WEIGHT if self.head in words else 1.0
        return weight * len(shared) / len(words) if words else 0.0

    def has_head(self, name: str) -> bool:
        """Return whether the kind's last word is in a name: `commands` has that of a subcommand, too."""
        return any(
            word == self.head or (len(word) > 3 and self.head.endswith(word))
            for word in _words(name)
        )


def kind_in(query: str) -> Kind | None:
    """Return the kind that a query wants one more of; None for another query."""
    text = " ".join(query.split()).rstrip("?.! ")
    match = _ON_EXTENSION.fullmatch(text) or _ON_KIND.fullmatch(text)
    if match is None:
        return None
    words = _in_order(match["kind"])
    # A new facet type is a facet.
    if len(words) > 1 and words[-1] in _OF_ANY_KIND:
        words.pop()
    purpose = _in_order(match["purpose"] or "")
    return Kind(frozenset([*words, *purpose]), words[-1]) if words else None


@dataclass(frozen=True, slots=True)
class CommonRows:
    """Finds what all of a kind have in common in a corpus: their types, and the lists of them."""

    _documents: DocumentStore
    _lexical: LexicalRetriever

    def levels(self, kind: Kind, rows: Rows, allowed: Allowed | None) -> dict[int, float]:
        """Map rows of types and lists to how much they count, in 0-1.

        `rows` (n,) are those nearest to the query, many of which are of the kind; `allowed` are those that
        it may have as hits.
        """
        if not {"kind", "name", "path"} <= self._documents.field_types.keys():
            return {}

        documents = [each for each in self._read(rows) if kind.is_of_tests or not is_test(each)]
        folders = folders_of(kind, [document.location.path or "" for document in documents])
        members = [self._members(folder) for folder in folders[:_MOST_FOLDERS]]
        types = self._types(kind, documents + [each for inside in members for each in inside])

        by_type = (list(names_of_type(_name(each), documents)) for each in types.values())
        by_folder = map(self._names_in, folders[:_MOST_FOLDERS])
        levels = {row: _COMMON / position for position, row in enumerate(types, 1)}
        groups = [*enumerate(by_type, 1), *enumerate(by_folder, 1)]
        for row, level in self._lists(kind, groups, rows, allowed).items():
            levels[row] = max(levels.get(row, 0.0), _COMMON * level)

        allowed_rows = np.array(sorted(levels), dtype=np.int64)
        allowed_rows = allowed_rows[self._documents.is_allowed(allowed_rows, allowed)]
        return {row: levels[row] for row in allowed_rows.tolist()}

    def _read(self, rows: Rows) -> list[Document]:
        return [stored.document for stored in self._documents.fetch(rows.tolist())]

    def _members(self, folder: str) -> list[Document]:
        """Return types that files of a folder define."""
        conditions: Filter = {"path": beginning_with(f"{folder}/"), "kind": _TYPES}
        return self._read(self._documents.rows_where(conditions, _MOST_MEMBERS))

    def _names_in(self, folder: str) -> list[str]:
        rows = self._documents.rows_where({"path": beginning_with(f"{folder}/")}, _MOST_PASSAGES)
        paths = self._documents.details(self._documents.document_of(rows)).paths
        return members_of(folder, filter(None, paths))

    def _types(self, kind: Kind, documents: Sequence[Document]) -> dict[int, Document]:
        """Return the likeliest types that the documents are of, by the row of each, the likeliest first."""
        types: dict[int, Document] = {}
        for name in likely_types(kind, documents)[: 5 * _MOST_TYPES]:
            if len(types) < _MOST_TYPES:
                types |= self._definition(kind, name)
        return types

    def _definition(self, kind: Kind, name: str) -> dict[int, Document]:
        """Return the row of a type with a name, with its document; none if there is no such type.

        Of several, one that is no stub or example, then an interface or the like, then the longest comes first:
        others are declarations. In Go, the exported name is another one.
        """
        conditions = {"name": [name, name[:1].upper() + name[1:]], "kind": _TYPES}
        rows = self._documents.rows_where(conditions, _MOST_DEFINITIONS)
        secondary = self._documents.secondary(self._documents.document_of(rows)).tolist()

        def order(each: tuple[int, Document, bool]) -> tuple[bool, bool, int, int]:
            row, document, is_secondary = each
            is_abstract = document.fields["kind"] in _ABSTRACT
            return is_secondary, not is_abstract, -len(document.body), row

        defining = zip(rows.tolist(), self._read(rows), secondary, strict=True)
        meant = [each for each in defining if kind.is_of_tests or not is_test(each[1])]
        return {row: document for row, document, _ in sorted(meant, key=order)[:1]}

    def _lists(
        self,
        kind: Kind,
        groups: Iterable[tuple[int, Sequence[str]]],
        rows: Rows,
        allowed: Allowed | None,
    ) -> dict[int, float]:
        """Return the rows that list the names of a group, with how well they do; those that do best.

        A group that is the second likeliest counts half.
        """
        levels: dict[int, float] = {}
        for position, group in groups:
            siblings = own_words(kind, group)
            if len(siblings) < _LEAST_LISTED:
                continue
            words = " ".join(dict.fromkeys(word for own in siblings for word in sorted(own)))
            weights = self._lexical.weights(words, with_absent=False)
            near, _ = self._lexical.search(weights, _MOST_COMPARED, allowed)
            compared = sorted_distinct(np.concatenate([rows, near]))
            for row, document in zip(compared.tolist(), self._read(compared), strict=True):
                levels[row] = max(levels.get(row, 0.0), listed(siblings, document) / position)

        best = sorted(levels, key=lambda row: (-levels[row], row))[:_MOST_LISTS]
        return {row: levels[row] for row in best if levels[row]}


def likely_types(kind: Kind, documents: Sequence[Document]) -> list[str]:
    """Return the names in heads of definitions that may be the kind's type, the likeliest first.

    They are in at least two heads, and have words of the kind. So are, in languages whose heads do not tell,
    those of types that have the same name in several files.
    """
    uses: dict[str, set[tuple[str | None, str]]] = {}
    for document in documents:
        path = document.location.path
        for name in _names_in_head(document):
            uses.setdefault(name, set()).add((path, document.title))
        for name in document.title.split(".")[-2:-1]:
            uses.setdefault(name, set()).add((path, name))

    likely = {
        name: math.log(len(places)) * kind.share(name)
        for name, places in uses.items()
        if len(places) > 1
    }
    return sorted(filter(likely.get, likely), key=lambda name: (-likely[name], name))


def names_of_type(name: str, documents: Iterable[Document]) -> Iterator[str]:
    """Yield the names of the documents whose heads have the name of a type."""
    for document in documents:
        if name in _names_in_head(document):
            yield _name(document)


def folders_of(kind: Kind, paths: Iterable[str]) -> list[str]:
    """Return the folders whose names say what the kind is, those with most of its words and the paths first."""
    counts: Counter[str] = Counter()
    for path in paths:
        folders = path.split("/")[:-1]
        for depth, folder in enumerate(folders, 1):
            if kind.has_head(folder):
                counts["/".join(folders[:depth])] += 1

    shared = {folder: len(kind.words & _words(folder.replace("/", " "))) for folder in counts}
    return sorted(counts, key=lambda folder: (-shared[folder], -counts[folder], folder))


def members_of(folder: str, paths: Iterable[str]) -> list[str]:
    """Return the names of the files and folders that are directly in a folder, without endings of files."""
    names = {path[len(folder) + 1 :].split("/")[0].split(".")[0] for path in paths}
    return sorted(name for name in names if name and not name.startswith("_"))


def own_words(kind: Kind, names: Sequence[str]) -> list[frozenset[str]]:
    """Return what tells each name from the others: its words without those of the kind and of most names."""
    words = [_words(name) - kind.words for name in dict.fromkeys(names)]
    counts = Counter(word for each in words for word in each)
    common = {word for word, count in counts.items() if count > max(2, len(words) / 2)}
    own = (each - common for each in words)
    return list(dict.fromkeys(each for each in own if each))[:_MOST_SIBLINGS]


def listed(siblings: Sequence[AbstractSet[str]], document: Document) -> float:
    """Return how well a document lists the siblings, in 0-1, less if it has much else.

    0 for a test, and for one that names few of them.
    """
    if is_test(document):
        return 0.0
    words = frozenset().union(*map(_words, set(_NAME.findall(document.body))))
    count = sum(own <= words for own in siblings)
    if count < _LEAST_LISTED or count < _LEAST_SHARE * len(siblings):
        return 0.0
    return math.sqrt(count / len(siblings) / math.sqrt(1.0 + math.log(len(words) / count + 1.0)))


def _names_in_head(document: Document) -> AbstractSet[str]:
    """Return the names in the head of a definition that is no function, without its own.

    Of qualified names, that is the last part.
    """
    if document.fields.get("kind") in _CALLABLE:
        return frozenset()
    head = str(document.fields.get("signature", ""))[:_MAX_HEAD]
    return frozenset(_IDENTIFIER.findall(head)) - {_name(document)}


def _is_alike(word: str, second: str) -> bool:
    """Return whether stems are of one word: "notif" of notifications, "notifi" of `notify`."""
    shorter, longer = sorted([word, second], key=len)
    return word == second or (len(shorter) >= _MIN_PREFIX and longer.startswith(shorter))


@lru_cache(maxsize=65_536)
def _words(name: str) -> frozenset[str]:
    return frozenset(_in_order(name))


def _in_order(names: str) -> list[str]:
    """Return the words of names, stemmed, without those that say that others are derived from it."""
    words = [word.lower() for name in names.split() for word in pieces(name) or [name]]
    return [token for word in words if word not in _GENERIC for token in tokens(word)[:1]]


def _name(document: Document) -> str:
    return document.title.rpartition(".")[2]
