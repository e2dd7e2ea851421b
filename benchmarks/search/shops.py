"""Measure searches in shops whose catalogue, or whose customers, are not English.

    python -m benchmarks.search.shops [--encoder NAME=DIR ...] [--weights 0.2 0.35 ...]
        [--shops german ...] [--half tuning] [--queries]

`questions/shops` has a file for each shop: a table of products, each in three variants, searches in
its language and, in some, searches in others. Encoders are directories; by default it is the one
that a shop has without `--encoder`. `--weights` are dense weights, by default that of the build. A
row of the table is an encoder with a weight, a column a shop: nDCG@10 of searches that share words
with the products, of those that share only meaning, and of those in other languages. `--queries`
also prints the measure of each search.
"""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from benchmarks.options import command_parser
from benchmarks.search.quality import markdown_table, named_directory
from purlin.index import builds
from purlin.index.encoder import TextEncoder, default_encoder, load_encoder
from purlin.index.evaluation import ranking
from purlin.index.indexing.build import build
from purlin.index.search.corpus import Corpus
from purlin.index.sources import open_source

SHOPS = Path(__file__).parents[2] / "questions" / "shops"
Half = Literal["tuning", "aside"]
# How a search can find its products: by their words, by their meaning alone, across languages.
WORDS, MEANING, ACROSS = "words", "meaning", "across"


@dataclass(frozen=True, slots=True)
class Search:
    """A search, the grades (1 to 3) of products by their ids, and what it takes to find them."""

    text: str
    grades: Mapping[str, int]
    by: str
    half: Half


@dataclass(frozen=True, slots=True)
class Shop:
    """A catalogue in one language and searches in it."""

    name: str
    products: tuple[Mapping[str, str], ...]
    searches: tuple[Search, ...]

    @property
    def texts(self) -> list[str]:
        """Titles and descriptions of the products."""
        return [f"{product['title']}\n{product['description']}" for product in self.products]


def read_shop(path: Path) -> Shop:
    """Read a file of `questions/shops`, whose README describes it."""
    header, queries = path.read_text(encoding="utf-8").split("queries:\n")
    within, _, across = queries.partition("across:\n")
    _, brands, *rows = header.splitlines()
    names = brands.removeprefix("brands: ").split(", ")

    products = tuple(
        product for number, row in enumerate(rows) for product in _variants(row, names, number)
    )
    ids = [product["id"] for product in products]
    searches = [*_searches(within, ids), *_searches(across, ids, ACROSS)]
    return Shop(path.stem, products, tuple(searches))


def _variants(row: str, brands: Sequence[str], number: int) -> Iterator[Mapping[str, str]]:
    key, category, title, variants, description = row.split(" | ")
    for variant, what in enumerate(variants.split(" / "), 1):
        yield {
            "id": f"{key}.{variant}",
            "title": f"{title}, {what}",
            "brand": brands[(3 * number + variant) % len(brands)],
            "category": category,
            "description": description,
        }


def _searches(lines: str, ids: Sequence[str], by: str = WORDS) -> Iterator[Search]:
    """Read searches; every second one of a kind is in the half that is kept aside."""
    counts: dict[str, int] = defaultdict(int)
    for line in lines.splitlines():
        text, graded = line.split(" | ")
        kind = by
        if by == ACROSS:
            _, text = text.split(" ", 1)
        elif text.startswith("m "):
            kind, text = MEANING, text.removeprefix("m ")

        grades = {}
        for name, grade in (entry.split("=") for entry in graded.split()):
            # A row's name stands for all of its variants.
            named = [product for product in ids if name in (product, product.rpartition(".")[0])]
            if not named:
                raise ValueError(f"{text!r} leads to {name!r}, which the shop does not have")
            grades |= dict.fromkeys(named, int(grade))
        yield Search(text, grades, kind, "aside" if counts[kind] % 2 else "tuning")
        counts[kind] += 1


@contextmanager
def opened(shop: Shop, encoder: TextEncoder) -> Iterator[Corpus]:
    """Build a shop's catalogue in a temporary home, and open it."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "catalogue.jsonl")
        lines = (json.dumps(product, ensure_ascii=False) for product in shop.products)
        path.write_text("\n".join(lines), encoding="utf-8")
        home = Path(directory, "home")
        build(home, shop.name, "product", open_source("product", [path]), encoder)

        corpus = Corpus.load(builds.current(home, shop.name), encoder)
        try:
            yield corpus
        finally:
            corpus.close()


def measured(
    corpus: Corpus, searches: Sequence[Search], weight: float | None
) -> Mapping[str, float]:
    """Return the nDCG@10 of each search by its text; `weight` is the dense weight if not the build's."""
    if weight is not None:
        hybrid = corpus.retrievers.hybrid
        corpus.retrievers.hybrid = replace(hybrid, dense_weight=weight)

    values = {}
    for search in searches:
        hits = corpus.search(search.text, k=10).hits
        ids = [hit.document_id for hit in hits]
        values[search.text] = ranking.ndcg(ids, search.grades)
    return values


def cell(searches: Sequence[Search], values: Mapping[str, float]) -> str:
    """Return the means by how searches find their products."""
    means = []
    for by in (WORDS, MEANING, ACROSS):
        chosen = [values[search.text] for search in searches if search.by == by]
        if chosen:
            means.append(f"{np.mean(chosen):.3f} ({len(chosen)})")
    return ", ".join(means)


def main() -> None:
    parser = command_parser(__doc__)
    names = sorted(path.stem for path in SHOPS.glob("*.txt"))
    parser.add_argument("--encoder", type=named_directory, action="append", metavar="NAME=DIR")
    parser.add_argument("--weights", type=float, nargs="+", default=[None])
    parser.add_argument("--shops", nargs="+", choices=names, default=names)
    parser.add_argument("--half", choices=("tuning", "aside"))
    parser.add_argument("--queries", action="store_true", help="print every search")
    options = parser.parse_args()

    shops = [read_shop(SHOPS / f"{name}.txt") for name in options.shops]
    cells: dict[str, list[str]] = defaultdict(list)
    for name, directory in options.encoder or [("default", None)]:
        for shop in shops:
            encoder = load_encoder(directory or default_encoder("product", shop.texts))
            searches = [each for each in shop.searches if options.half in (None, each.half)]
            with opened(shop, encoder) as corpus:
                for weight in options.weights:
                    values = measured(corpus, searches, weight)
                    used = corpus.retrievers.hybrid.dense_weight
                    label = f"{name}, {used:g}" if weight is not None else name
                    cells[label].append(cell(searches, values))
                    for text, value in values.items() if options.queries else ():
                        print(f"{value:.3f} {label}, {shop.name}: {text}")

    columns = [f"{shop.name}: words, meaning, across" for shop in shops]
    print(markdown_table("encoder", columns, cells.items()))


if __name__ == "__main__":
    main()
