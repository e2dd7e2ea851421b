"""Fixtures: a fake encoder at the one real seam, and small corpora built from real files."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

# Before torch is imported: two threads wait for each other if cores are shared.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Measuring takes seconds, and would be remembered in the user's cache directory.
os.environ["PURLIN_TUNING"] = "off"
# A process in the background would outlive the test whose directory it indexes.
os.environ["PURLIN_BACKGROUND"] = "off"

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from numpy.typing import NDArray

from purlin.index import self_check
from purlin.index.encoder import TRANSFORMER_ENCODER, Encoder, Role, TextEncoder, Vectors
from purlin.index.records import Architecture, Document, Hit, Skipped, SourceFile
from purlin.index.search.corpus import Corpus

# How long an example takes depends on what else the machine does. What must pass before a change lands draws the same
# examples every time; everywhere else they are new ones.
settings.register_profile(
    "purlin",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="CI" in os.environ,
)
settings.load_profile("purlin")

# These take longest, and start first: else one of them would run alone at the end.
LONGEST = (
    "test_guide test_pesco test_santa test_reliability test_sources_reference test_cli test_sources_code "
    "test_train_reader test_export test_loop test_dense test_workers test_wheel test_open_builds test_unfinished "
    "test_milvus test_mcp test_answers test_segments test_encoded test_restore test_connections test_dpr test_nodes "
    "test_readme test_backends test_watching test_ray_encoder"
).split()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest modules first; `--no-loadscope-reorder` makes xdist keep the order."""
    ranks = {name: rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(item.path.stem, len(ranks)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Half as many processes again as cores, as tests also wait for servers."""
    return 3 * (os.cpu_count() or 1) // 2


def pytest_collection_finish() -> None:
    """Spare the garbage collector all that is imported, a million objects."""
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def unforced_writes() -> Iterator[None]:
    """Leave it to the system when to write to disk: no test cuts the power, and each would wait."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", lambda descriptor: None)
        yield


class HashEncoder:
    """Hashed bag of lower-case words: a function of its input, so that equal texts meet and similar ones come near."""

    name = "hash"
    dim = 64
    fingerprint = "hash-64"
    max_tokens = 100_000
    architecture: Architecture = "transformer"

    def __init__(self) -> None:
        self.encoded: list[str] = []

    def count_tokens(self, texts: Sequence[str], *, role: Role = "passage") -> NDArray[np.int64]:
        return np.array([len(re.findall(r"[a-z0-9]+", text.lower())) for text in texts], np.int64)

    def encode(
        self, texts: Sequence[str], *, role: Role, progress: Callable[[int], None] | None = None
    ) -> Vectors:
        self.encoded.extend(text for text in texts if text not in self_check.SELF_CHECK_TEXTS)
        vectors = np.zeros((len(texts), self.dim), dtype=np.float32)
        for row, text in enumerate(texts):
            for word in re.findall(r"[a-z0-9]+", text.lower()):
                digest = hashlib.blake2b(word.encode(), digest_size=4).digest()
                vectors[row, int.from_bytes(digest, "big") % self.dim] += 1.0
        vectors += 1e-6
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        if progress is not None:
            progress(len(texts))
        return vectors


@pytest.fixture(scope="session")
def reader_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny reader with random weights, exported once: that takes seconds."""
    from tests.readers import tiny_reader

    return tiny_reader(tmp_path_factory.mktemp("reader"))


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Torch draws the same in every run: some builds start from another seed each time."""
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)


@pytest.fixture(scope="session")
def traced_once() -> Callable[..., None]:
    """Stand in for the exports' `trace`, see `tests.traced`."""
    from tests.traced import TracedOnce

    return TracedOnce()


@pytest.fixture(scope="module")
def graphs_once(traced_once: Callable[..., None]) -> Iterator[None]:
    """Trace each architecture once for all exports: torch takes seconds."""
    from purlin.training.exporting import encoder as encoder_export
    from purlin.training.ranker import export as ranker_export
    from purlin.training.reader import export as reader_export

    with pytest.MonkeyPatch.context() as patched:
        for module in (encoder_export, ranker_export, reader_export):
            patched.setattr(module, "trace", traced_once)
        yield


@pytest.fixture
def encoder() -> HashEncoder:
    return HashEncoder()


@pytest.fixture(scope="session")
def released() -> Encoder:
    return Encoder.load(TRANSFORMER_ENCODER)


@pytest.fixture
def built_with() -> TextEncoder:
    """The encoder of `home`; modules whose servers are processes of their own take the released one."""
    return HashEncoder()


@pytest.fixture
def home(tmp_path: Path, built_with: TextEncoder) -> Path:
    """Where one corpus is: `code`, of the functions in tests/serving.py."""
    from tests.serving import FUNCTIONS, make

    make(tmp_path, "code", FUNCTIONS, built_with)
    return tmp_path


@pytest.fixture
def one_process() -> Iterator[None]:
    """Torch on one thread, and accelerate without what another test left of it."""
    import torch
    from accelerate.state import AcceleratorState

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    AcceleratorState._reset_state(reset_partial_state=True)
    yield
    AcceleratorState._reset_state(reset_partial_state=True)
    torch.set_num_threads(threads)


@contextlib.contextmanager
def unprivileged() -> Iterator[None]:
    """As nobody, if the tests run as root: root may read what no one may."""
    root = os.geteuid() == 0
    try:
        if root:
            os.seteuid(65534)
        yield
    finally:
        if root:
            os.seteuid(0)


def functions(count: int, words: Sequence[str]) -> list[Document]:
    """Functions f0, f1, ... of 3 to 29 random words: every third in Go, every fifth a test."""
    random = np.random.default_rng(0)
    return [
        Document(
            id=f"m.py::f{n}",
            kind="code",
            title=f"f{n}",
            body=" ".join(random.choice(words, size=int(random.integers(3, 30)))),
            fields={
                "language": "python" if n % 3 else "go",
                "n": n,
                "role": "test" if n % 5 == 0 else "source",
            },
        )
        for n in range(count)
    ]


def source(path: str, documents: Sequence[Document | Skipped]) -> SourceFile:
    """A source file that yields these documents; its digest follows from them."""
    return SourceFile(
        path, hashlib.sha256(repr(documents).encode()).hexdigest(), lambda: iter(documents)
    )


def paged(corpus: Corpus, query: str, count: int, k: int) -> list[Hit]:
    """The first `count` hits of a query, read in pages of `k`."""
    return [
        hit
        for offset in range(0, count, k)
        for hit in corpus.search(query, k=k, offset=offset).hits
    ]
