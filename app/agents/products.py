"""The tool `search_products`."""

from __future__ import annotations

from pydantic import Field

from purlin.app.agents.backend import Backend
from purlin.app.agents.budget import Part, Result, fit
from purlin.app.agents.choosing import choose_corpora, with_warning
from purlin.app.agents.results import match_reason, one_line, search_head, without_unlike
from purlin.app.agents.tool import MAX_SHOWN, Budget, CorpusArgument, K, Tool
from purlin.app.fields import Conditions, Query, Strict
from purlin.index.records import Hit

_MAX_FIELDS = 12  # fields of a product that are shown
_MAX_VARIANTS = 5  # variants of a product whose ids are shown


class SearchProducts(Strict):
    """Arguments of `search_products`."""

    query: Query = Field(description="What is wanted, as a shopper says it.")
    corpus: CorpusArgument = Field(
        default=None, description="One catalogue of several [default: all]."
    )
    filter: Conditions = Field(
        default={},
        description='Field -> a value, a list (any of them), {"gte": …, "lte": …}, or {"not": one of these}.',
        examples=[{"price": {"lte": 20}, "brand": {"not": "Acme"}}],
    )
    k: int = K
    max_tokens: int = Budget


def search_products(arguments: SearchProducts, backend: Backend) -> Result:
    """Find products: hits with id, title, fields and description."""
    corpora, left_out = choose_corpora(backend, "product", arguments.corpus)
    reply = backend.search(corpora, arguments.query, arguments.k, arguments.filter, "all")
    reply = without_unlike(with_warning(reply, left_out))
    parts = [_product_part(arguments.query, hit) for hit in reply.hits]
    return fit(lambda count: search_head(reply, count), "hits", parts, arguments.max_tokens)


def _product_part(query: str, hit: Hit) -> Part:
    shown = {name: value for name, value in hit.fields.items() if len(str(value)) <= MAX_SHOWN}
    shown = dict(list(shown.items())[:_MAX_FIELDS])
    title, reason = hit.title[:MAX_SHOWN], match_reason(query, hit)

    identifier = hit.document_id[:MAX_SHOWN]
    values = ", ".join(f"{name}={value}" for name, value in shown.items())
    head = f"{identifier} {title} · {hit.score:.2f} · {reason} · {values}".removesuffix(" · ")
    fields = {
        "id": identifier,
        "title": title,
        "score": hit.score,
        "why": reason,
        "fields": shown,
    }
    if hit.variants:
        variants = [variant.id[:MAX_SHOWN] for variant in hit.variants[:_MAX_VARIANTS]]
        fields["variants"] = variants
        head += f" · variants: {', '.join(variants)}"
    if hit.corpus:
        fields["corpus"] = hit.corpus
        head = f"{hit.corpus}: {head}"
    return Part(one_line(head), fields, "text", hit.text)


SEARCH_PRODUCTS = Tool(
    "search_products",
    "Search products",
    "search",
    "Find products in an indexed catalogue by what they are and what they are for, with filters on fields. "
    "Use it for what a shopper asks for. Not for code or documentation.",
    SearchProducts,
    search_products,
)
