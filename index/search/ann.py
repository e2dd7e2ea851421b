"""Approximate nearest neighbours among many vectors: a graph over codes of 4 bits, by FAISS.

A search walks the graph (HNSW) from neighbour to neighbour towards the query, and keeps the best
rows that it has met, its beam. How wide a beam finds the nearest rows is measured when the graph is
built, on noisy copies of vectors. Their neighbours are about as hard to find as those of real
queries, which lie apart from the passages; see docs/performance.md.

With a filter, the beam is wider, so that enough allowed rows are in it. If few rows are allowed,
their codes are compared one by one, which is exact except for the rounding of the codes.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from purlin.index.encoder import Vectors
from purlin.index.search.arrays import Mask, Rows

# Importing it takes longer than a search of a small corpus, which does without it.
if TYPE_CHECKING:
    import faiss

# Parts of the vectors, float32, in the order of their rows.
Blocks = Callable[[], Iterable[Vectors]]
# Cosines (n,) of a vector with the stored vectors of rows (n,).
Score = Callable[[Vectors, Rows], Vectors]

# Links of a node; on the lowest level, it has twice as many. The largest degree that fits in memory is
# taken: with fewer links, searches need a wider beam.
_DEGREES = (16, 12, 8)
# Rows in the beam that finds a new row's neighbours. With a wider one, building takes longer, but
# searches among many rows need only a fraction of their beam: measured in docs/lab-notebook.md.
_BUILD_BEAM, _WIDE_BUILD_BEAM = 80, 200
MANY_ROWS = 200_000
# Codes and links may take this share of the memory of float32 vectors.
_MEMORY_SHARE = 0.35
# Comparing the codes of this many rows takes as long as one more row in the beam.
_ROWS_PER_BEAM = 25
# A beam has, on average, this many times as many allowed rows as are fetched.
_FILTER_MARGIN = 1.2
_COMPARED_TOGETHER = 65_536

# With a quarter as many probes, it was chance that chose between beams, one four times as wide as the
# other. Noise of this length, added to a unit vector, leaves a cosine of 0.79.
_PROBES, _NOISE = 512, 0.78
_BEAMS = (48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536)
_WIDENINGS = (1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
SHALLOW, MEASURED, DEEP = 10, 100, 200
_RECALL_SHALLOW, _RECALL_DEEP = 0.99, 0.97
# Cosines differ by less if their terms are only added in another order.
_ROUNDING = 1e-5


def is_available() -> bool:
    """Tell whether FAISS, which is optional, is installed."""
    return importlib.util.find_spec("faiss") is not None


class Graph:
    """The index of unit vectors (n, dim), which are not part of it.

    `beam` is the least number of rows in a beam, and `widening` the number for each requested row.
    """

    def __init__(
        self, index: faiss.IndexHNSWSQ, beam: int, widening: float, content: bytes = b""
    ) -> None:
        import faiss

        self._index = index
        # Kept: an index that was loaded points into it.
        self._content = content
        self._beam, self._widening = beam, widening
        storage = faiss.downcast_index(index.storage)
        # An index without rows, of the same codes.
        self._empty = faiss.IndexScalarQuantizer(
            index.d, faiss.ScalarQuantizer.QT_4bit, faiss.METRIC_INNER_PRODUCT
        )
        self._empty.sq, self._empty.is_trained = storage.sq, True
        codes = faiss.rev_swig_ptr(storage.codes.data(), index.ntotal * storage.code_size)
        self._codes = codes.reshape(index.ntotal, storage.code_size)

    @classmethod
    def build(cls, blocks: Blocks, rows: int, sample: Vectors) -> Self:
        """Index the vectors of all `rows`, with codes trained on a `sample` (m, dim).

        The graph is the same whatever the number of threads.
        """
        import faiss

        index = faiss.IndexHNSWSQ(
            sample.shape[1],
            faiss.ScalarQuantizer.QT_4bit,
            _degree(sample.shape[1]),
            faiss.METRIC_INNER_PRODUCT,
        )
        index.hnsw.efConstruction = _WIDE_BUILD_BEAM if rows > MANY_ROWS else _BUILD_BEAM
        index.train(sample)
        for block in blocks():
            index.add(block)
        return cls(index, _BEAMS[0], _WIDENINGS[0])

    @classmethod
    def load(cls, content: bytes, settings: Mapping[str, Any]) -> Self:
        """Open what `save` wrote, without a copy, with the settings of `tune`."""
        import faiss

        numbers = np.frombuffer(content, np.uint8)
        reader = faiss.ZeroCopyIOReader(faiss.swig_ptr(numbers), len(numbers))
        index = faiss.read_index(reader, faiss.IO_FLAG_MMAP_IFC)
        return cls(index, int(settings["beam"]), float(settings["widening"]), content)

    def save(self, path: Path) -> None:
        """Write the index. Raises RuntimeError if the disk is full."""
        import faiss

        faiss.write_index(self._index, str(path))

    def __len__(self) -> int:
        return int(self._index.ntotal)

    @property
    def settings(self) -> dict[str, Any]:
        """What `load` needs besides the content of the file, and a description of the index."""
        degree = self._index.hnsw.nb_neighbors(1)
        return {
            "beam": self._beam,
            "widening": self._widening,
            "codes": "4 bits",
            "degree": degree,
            "bytes_per_passage": round(_bytes_per_row(self._index.d, degree)),
        }

    # ---- search

    def candidates(self, query: Vectors, depth: int, allowed: Mask | None = None) -> Rows:
        """Return rows that most likely include the nearest `depth` to `query` (dim,), in no order.

        `allowed` (n,) restricts the rows. There are at least `depth`, or all that are allowed.
        """
        count = _fetched(depth)
        allowed_rows = len(self) if allowed is None else int(np.count_nonzero(allowed))
        if allowed_rows <= count:
            return np.arange(len(self)) if allowed is None else np.flatnonzero(allowed)

        # Wide enough that the filter leaves enough of it; the share of allowed rows varies.
        rows_per_allowed = len(self) / allowed_rows
        beam = self._beam_width(math.ceil(depth * rows_per_allowed))
        if allowed is not None:
            beam = max(beam, math.ceil(_FILTER_MARGIN * count * rows_per_allowed))
        while allowed_rows > beam * _ROWS_PER_BEAM:
            if allowed is None:
                rows = self._walk(query, count, beam)
            else:
                rows = self._walk(query, beam, beam)
                rows = rows[allowed[rows]][:count]
            if len(rows) >= depth:
                return rows
            # The allowed rows are far from the query, or the beam was caught among copies.
            beam *= 4
        return self._compare(query, count, allowed)

    def _beam_width(self, depth: int) -> int:
        """Return the number of rows in the beam of a search for the nearest `depth`."""
        return max(self._beam, math.ceil(self._widening * depth), _fetched(depth))

    def _walk(self, query: Vectors, count: int, beam: int) -> Rows:
        """Return the nearest `count` rows that a walk with this beam meets, best first."""
        import faiss

        parameters = faiss.SearchParametersHNSW(efSearch=beam)
        rows: Rows = self._index.search(query[None], count, params=parameters)[1][0]
        # FAISS fills up with -1.
        return rows[rows >= 0]

    def _compare(self, query: Vectors, count: int, allowed: Mask | None) -> Rows:
        """Return the nearest `count` rows by comparing the codes of all allowed ones."""
        import faiss

        rows = np.arange(len(self)) if allowed is None else np.flatnonzero(allowed)
        nearest, products = [], []
        for start in range(0, len(rows), _COMPARED_TOGETHER):
            part = rows[start : start + _COMPARED_TOGETHER]
            index = faiss.clone_index(self._empty)
            index.add_sa_codes(self._codes.take(part, axis=0))
            with _one_thread():
                part_products, positions = index.search(query[None], min(count, len(part)))
            nearest.append(part[positions[0]])
            products.append(part_products[0])

        order = np.argsort(-np.concatenate(products), kind="stable")[:count]
        return np.concatenate(nearest)[order]

    # ---- measuring

    def tune(self, blocks: Blocks, sample: Vectors, score: Score) -> dict[str, float]:
        """Choose the narrowest beams that find nearly all neighbours of probes near a `sample`.

        Returns their recall of the nearest 10 at depth 10, and of the nearest 100 at depth 200, as deep
        as a hybrid search goes. `score` returns the cosines of candidates.
        """
        probes = probes_near(sample)
        nearest = exact_cosines(probes, blocks, min(MEASURED, len(self)))

        for beam in _BEAMS:
            self._beam = beam
            shallow = self._recall(probes, nearest[:, :SHALLOW], SHALLOW, score)
            if shallow >= _RECALL_SHALLOW:
                break
        for widening in _WIDENINGS:
            self._widening = widening
            deep = self._recall(probes, nearest, DEEP, score)
            if deep >= _RECALL_DEEP:
                break
        return {"recall@10": round(shallow, 4), "recall@100": round(deep, 4)}

    def _recall(self, probes: Vectors, nearest: Vectors, depth: int, score: Score) -> float:
        shares = [
            recall(cosines, score(probe, self.candidates(probe, depth)))
            for probe, cosines in zip(probes, nearest, strict=True)
        ]
        return float(np.mean(shares))


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Keep FAISS in this thread: for a single query, more threads cost more than they gain."""
    import faiss

    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(threads)


def _fetched(depth: int) -> int:
    """Return how many candidates to score by their vectors: codes give only an approximate order."""
    return max(depth + depth // 4 + 16, 48)


def _bytes_per_row(dim: int, degree: int) -> float:
    """Return the memory of a code and of the links of a node, in bytes.

    Each link takes 4. A node also has an offset and a level, and one node in `degree` is on a higher
    level, with `degree` links.
    """
    code = -(-dim // 2)
    return code + 4 * 2 * degree + 4 * degree / (degree - 1) + 12


def _degree(dim: int) -> int:
    limit = _MEMORY_SHARE * 4 * dim
    fitting = (degree for degree in _DEGREES if _bytes_per_row(dim, degree) <= limit)
    # Of very short vectors, even the fewest links take more than that.
    return next(fitting, _DEGREES[-1])


def probes_near(sample: Vectors, count: int = _PROBES) -> Vectors:
    """Return unit vectors (`count` at most, dim) near some of a sample."""
    centres = sample[:: -(-len(sample) // count)]
    random = np.random.default_rng(1)
    noise = random.standard_normal(centres.shape, dtype=np.float32)
    probes = centres + noise * np.float32(_NOISE / math.sqrt(centres.shape[1]))
    normed: Vectors = probes / np.linalg.norm(probes, axis=1, keepdims=True)
    return normed


def exact_cosines(queries: Vectors, blocks: Blocks, count: int) -> Vectors:
    """Return the inner products (queries, count) with the nearest vectors, best first."""
    cosines = np.full((len(queries), count), -np.inf, dtype=np.float32)
    for block in blocks():
        all_cosines = np.concatenate([cosines, queries @ block.T], axis=1)
        cosines = -np.partition(-all_cosines, count - 1, axis=1)[:, :count]
    return -np.sort(-cosines, axis=1)


def recall(nearest: Vectors, cosines: Vectors) -> float:
    """Return the recall (0-1) of a search's cosines, by the true `nearest` ones (n,), best first.

    Any row as near as the last of the nearest counts: a corpus has copies, and chance decides which of
    them are among the nearest.
    """
    return min(np.count_nonzero(cosines >= nearest[-1] - _ROUNDING) / len(nearest), 1.0)
