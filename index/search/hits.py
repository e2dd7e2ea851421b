"""Hits of a ranking: its documents and passages as users see them, and what their scores are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from purlin.index.records import Document, Hit, Kind, Location, Passage
from purlin.index.search.contracts import DocumentStore, LexicalRetriever
from purlin.index.search.highlights import MAX_HIGHLIGHTS, highlight_terms, highlights
from purlin.index.search.lexical.languages import ENGLISH
from purlin.index.search.ranking import accessories, feedback
from purlin.index.search.ranking.query_log import QueryLog
from purlin.index.search.ranking.ranked import Query, Ranking
from purlin.index.search.ranking.retrievers import Retrievers
from purlin.index.search.store.regexps import Scan


@dataclass(frozen=True, slots=True)
class Retrieved:
    """A hit with its document and passage."""

    hit: Hit
    document: Document
    passage: Passage


@dataclass(frozen=True, slots=True)
class Hits:
    """Reads the hits of rankings; `log` has the earlier queries of the corpus, if there are any."""

    kind: Kind
    documents: DocumentStore
    lexical: LexicalRetriever
    retrievers: Retrievers
    log: QueryLog | None

    def retrieved(self, query: Query, ranking: Ranking, start: int, stop: int) -> list[Retrieved]:
        """Read the rows `start` to `stop` - 1 of a ranking; their hits have no highlights."""
        passages = self.documents.fetch(ranking.rows[start:stop].tolist())
        retrieved = []
        for position, stored in enumerate(passages, start):
            document, passage = stored.document, stored.passage
            hit = Hit(
                id=passage.id,
                document_id=document.id,
                rank=position + 1,
                score=_rounded(ranking.scores[position]),
                scores=self._retriever_scores(query, ranking, position),
                title=document.title,
                text=document.body[passage.start : passage.end],
                highlights=(),
                location=document.location,
                fields=document.fields,
                context=document.context,
            )
            retrieved.append(Retrieved(hit, document, passage))
        return retrieved

    def highlighted(self, query: str, hits: Sequence[Hit]) -> tuple[Hit, ...]:
        """Return the hits with highlights where their texts match the query's words."""
        terms = highlight_terms(query, self.kind, self.lexical.language)
        return tuple(replace(hit, highlights=highlights(hit.text, terms)) for hit in hits)

    def explained(self, query: Query, ranking: Ranking, hits: Sequence[Hit]) -> tuple[Hit, ...]:
        """Return hits of a ranking, which follow each other, with what their scores are made of."""
        positions = [hit.rank - 1 for hit in hits]
        # All hits at once, so that a token's postings are read only once.
        terms = self.lexical.explain(query.weights, ranking.rows[positions])
        return tuple(
            replace(
                hit,
                explanation=self._explanation(query, ranking, position, terms_of_hit)
                | ({} if query.pattern is None else {"matching_lines": len(hit.highlights)}),
            )
            for hit, position, terms_of_hit in zip(hits, positions, terms, strict=True)
        )

    def _retriever_scores(self, query: Query, ranking: Ranking, position: int) -> dict[str, float]:
        scores = {}
        if query.vector is not None:
            scores["dense"] = _rounded(ranking.cosines[position])
        if query.mode != "dense":
            scores["lexical"] = _rounded(ranking.lexical[position])
        if query.nearness is not None:
            document = self.documents.document_of(ranking.rows[position : position + 1])
            scores["log"] = _rounded(query.nearness.of(document)[0])
        if not np.isnan(similarity := ranking.similarities[position]):
            scores["feedback"] = _rounded(similarity)
        if (reading := ranking.reading) is not None and position < len(reading.relevance):
            scores["rerank"] = _rounded(reading.relevance[position])

        return scores

    def _explanation(
        self, query: Query, ranking: Ranking, position: int, terms: Mapping[str, float]
    ) -> dict[str, Any]:
        rows = ranking.rows[position : position + 1]
        fusion = self.retrievers.fusion(query)
        explanation: dict[str, Any] = {}
        if query.vector is not None and self.log is not None:
            document = int(self.documents.document_of(rows)[0])
            explanation["earlier"] = self.log.nearest(query.vector, document)

        prior = float(self.retrievers.priors(rows, query.mode)[0])
        if (evidence := ranking.evidence) is not None and position < len(evidence.role):
            prior = float(evidence.role[position])
            explanation["parts"] = evidence.parts(position)

        if (reading := ranking.reading) is not None and position < len(reading.relevance):
            explanation["rerank"] = {
                "reranker": reading.name,
                "weight": reading.weight,
                "relevance": _rounded(reading.relevance[position]),
                "searched": _rounded(reading.searched[position]),
            }

        if ranking.accessories[position]:
            prior *= accessories.FACTOR
            explanation["accessory"] = True

        if (language := self.lexical.language) is not ENGLISH:
            explanation["language"] = language.name
        if query.text != query.written:
            explanation["corrected"] = query.text

        return explanation | {
            "dense_weight": fusion.dense_weight,
            "feedback_weight": 0.0 if np.isnan(ranking.similarities[position]) else feedback.WEIGHT,
            "lexical_power": fusion.lexical_power,
            "terms": terms,
            "named": rows[0] in query.named,
            "prior": prior,
        }


def first_line(location: Location, text: str) -> int | None:
    """Return the number of a text's first line in its file; None if it leaves out lines of the file."""
    if location.start_line is None or location.end_line is None:
        return None
    is_whole = text.count("\n") == location.end_line - location.start_line
    return location.start_line if is_whole else None


def matched(retrieved: Sequence[Retrieved], pattern: str) -> tuple[Hit, ...]:
    """Return the hits with the lines that match a regular expression as highlights.

    Of the lines around a document, a hit has those in whose block one matches: before its text if
    that has a match, too, else instead of it.
    """
    scan, hits = Scan(pattern), []
    for each in retrieved:
        hit = each.hit
        around = [] if each.passage.number else each.document.around
        if blocks := [block for block in around if scan.has_line(block[1])]:
            hit = _with_blocks(hit, blocks, with_text=scan.has_line(hit.text))
        highlights = tuple(islice(scan.spans(hit.text), MAX_HIGHLIGHTS))
        hits.append(replace(hit, highlights=highlights))
    return tuple(hits)


def _with_blocks(hit: Hit, blocks: Sequence[tuple[int, str]], *, with_text: bool) -> Hit:
    """Return a hit with blocks of lines around its document, followed by its text `with_text`.

    For those that are missing in between stand a line with an ellipsis and then blank ones, so that
    each line can be numbered. Only a text that leaves out lines itself is appended as it is.
    """
    start, gapped_text = first_line(hit.location, hit.text), ""
    if with_text and start is not None:
        # A block may have the whole of a line in whose middle the text begins.
        blocks = [(start, hit.text), *blocks]
    elif with_text:
        gapped_text = f"\n\n{hit.text}"

    line_at = {
        number: line
        for first, lines in blocks
        for number, line in enumerate(lines.split("\n"), first)
    }
    first, last = min(line_at), max(line_at)
    gap_starts = {number + 1: "…" for number in line_at if number + 1 not in line_at}
    text = "\n".join(
        line_at.get(number, gap_starts.get(number, "")) for number in range(first, last + 1)
    )
    if gapped_text:
        first = min(first, hit.location.start_line or first)
        last = max(last, hit.location.end_line or last)
    location = replace(hit.location, start_line=first, end_line=last)
    return replace(hit, text=text + gapped_text, location=location)


def _rounded(score: np.float32) -> float:
    """Round a score to four digits; further digits differ between processors."""
    return round(float(score), 4)
