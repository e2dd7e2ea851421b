"""Fixtures: a fake encoder at the one real seam, and small corpora built from real files."""

from __future__ import annotations

import functools
import gc
import os
import ssl
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

# Before torch is imported: two threads wait for each other if cores are shared.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Measuring takes seconds, and would be remembered in the user's cache directory.
os.environ["PURLIN_TUNING"] = "off"
# The servers of the tests are on this machine, to which no proxy leads.
os.environ |= dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost")
# On a busy machine, Milvus takes longer to answer than searches wait.
os.environ["PURLIN_MILVUS_TIMEOUT_S"] = "60"
# A process in the background would outlive the test whose directory it indexes.
os.environ["PURLIN_BACKGROUND"] = "off"

import pytest
from hypothesis import HealthCheck, settings

from purlin.index.encoder import TRANSFORMER_ENCODER, TextEncoder
from purlin.index.encoder.transformer import Encoder
from tests.support.hash_encoder import HashEncoder
from tests.support.paths import TESTS
from tests.support.processes import shared_directory

if TYPE_CHECKING:
    from tests.support.traced import TracedOnce

# How long an example takes depends on what else the machine does. What must pass before a change lands draws the same
# examples every time; everywhere else they are new ones in each run, so that half as many do.
DRAWS_THE_SAME = "CI" in os.environ
settings.register_profile(
    "purlin",
    deadline=None,
    max_examples=100 if DRAWS_THE_SAME else 50,
    # Examples may share what a fixture made: they write files of the same names again.
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    derandomize=DRAWS_THE_SAME,
)
settings.load_profile("purlin")

# These take longest, and start first: else one of them would run alone at the end.
LONGEST = (
    "project/test_guide",
    "app/test_reliability",
    "app/test_workers",
    "project/test_wheel",
    "index/engines/test_milvus",
    "index/indexing/test_unfinished",
    "app/corpora/test_watching",
    "index/search/test_backends",
    "cli/test_cli",
    "index/workspaces/test_better_vectors",
    "project/test_readme",
    "index/search/test_dense",
    "index/evaluation/test_answers",
    "index/sources/code/test_definitions",
    "app/agents/test_mcp_stdio",
    "app/test_connections",
    "cli/test_quick_commands",
    "app/test_tracing",
    "index/encoder/test_ray_cluster",
    "app/test_errors",
    "index/search/lexical/test_lexical",
    "index/storage/test_blocks",
    "app/web/test_hits",
    "app/web/test_style",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest modules first; `--no-loadscope-reorder` makes xdist keep the order."""
    ranks = {TESTS / f"{name}.py": rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(item.path, len(ranks)))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Spare the garbage collector all that is imported meanwhile, a million objects."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
def unforced_writes() -> Iterator[None]:
    """Leave it to the system when to write to disk: no test cuts the power, and each would wait."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def unhurried() -> Iterator[None]:
    """Leave time to what would give up after a second or two, so that no answer depends on the machine's load."""
    from purlin.index.indexing import staleness
    from purlin.index.qa.ask import answer_question
    from purlin.index.search import corpus, several

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(staleness, "TIME_LIMIT_S", 60.0)
        patched.setattr(corpus, "RERANK_SECONDS", 60.0)
        patched.setattr(several, "RERANK_SECONDS", 60.0)
        patched.setitem(answer_question.__kwdefaults__, "seconds", 60.0)
        yield


@pytest.fixture(scope="session", autouse=True)
def certificates_once() -> Iterator[None]:
    """Read the certificates once: each client of httpx would, for longer than its requests take."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ssl, "create_default_context", functools.cache(ssl.create_default_context))
        yield


@pytest.fixture(scope="session")
def reader_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.support.cross_encoders import write_reader

    return write_reader(tmp_path_factory.mktemp("reader"))


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Torch draws the same in every run: some builds start from another seed each time."""
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)


@pytest.fixture(scope="session")
def traced_once(tmp_path_factory: pytest.TempPathFactory) -> TracedOnce:
    """Stand in for the exports' `trace`, see `tests.support.traced`."""
    from tests.support.traced import TracedOnce

    directory = shared_directory(tmp_path_factory) / "graphs"
    directory.mkdir(exist_ok=True)
    return TracedOnce(directory)


@pytest.fixture(scope="module")
def graphs_once(traced_once: TracedOnce) -> Iterator[None]:
    """Trace each architecture once for all exports: torch takes seconds."""
    from tests.support.traced import exports_traced_by

    with exports_traced_by(traced_once):
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
    """Where one corpus is: `code`, of the functions in tests/support/serving.py."""
    from tests.support.serving import FUNCTIONS, make

    make(tmp_path, "code", FUNCTIONS, encoder=built_with)
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
