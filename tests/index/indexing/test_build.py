import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from purlin.index import builds
from purlin.index.builds.manifests import Manifest, read_manifest
from purlin.index.encoder import Vectors, encoder_directory, load_encoder
from purlin.index.errors import Busy, EncoderMismatch, InvalidInput, StorageFailed
from purlin.index.indexing.build import build
from purlin.index.indexing.builder import Options
from purlin.index.records import KINDS, Document, Kind, Skipped, SourceFile
from purlin.index.search import dense, segments
from purlin.index.search.corpus import Corpus
from purlin.index.search.ranking.fusion import HYBRID, WORDS_LEAD
from purlin.index.search.segments import open_documents
from purlin.index.search.store.listing import read_listing
from purlin.index.sources import names, open_source
from tests.support.documents import source
from tests.support.hash_encoder import HashEncoder
from tests.support.paths import ROOT
from tests.support.serving import limited
from tests.support.traffic import run


def _document(number: int, text: str = "") -> Document:
    body = text or f"body of thing {number}"
    return Document(f"d{number}", "product", f"thing {number}", body, fields={"n": number})


def _sources(changed: int | None = None) -> list[SourceFile | Skipped]:
    return [
        source(f"f{n}", [_document(n, "quite another text" if n == changed else "")])
        for n in range(5)
    ]


def _build(
    home: Path, encoder: HashEncoder, sources: list[SourceFile | Skipped] | None = None
) -> Manifest:
    return build(
        home, "c", "product", sources or _sources(), encoder, options=Options(origin=("here",))
    )


def left_out(home: Path) -> list[Skipped]:
    """What the active build of `c` left out."""
    directory = builds.current(home, "c")
    with closing(open_documents(directory, read_manifest(directory))) as documents:
        return segments.left_out(read_listing(directory), documents.stores)


def test_a_build_is_active_and_searchable(tmp_path: Path, encoder: HashEncoder) -> None:
    calls: list[tuple[str, int, int | None]] = []
    manifest = build(
        tmp_path, "c", "product", _sources(), encoder, progress=lambda *call: calls.append(call)
    )
    assert (manifest.documents, manifest.passages) == (5, 5)
    assert (manifest.reused, manifest.skipped) == (0, 0)
    assert [calls[0], calls[-1]] == [("read", 5, 5), ("encode", 5, 5)]
    corpus = Corpus.load(builds.current(tmp_path, "c"), encoder)
    assert corpus.search("thing 3", k=1).hits[0].document_id == "d3"
    assert corpus.manifest == read_manifest(builds.current(tmp_path, "c"))


def test_a_rebuild_reads_and_encodes_only_what_changed(
    tmp_path: Path, encoder: HashEncoder
) -> None:
    _build(tmp_path, encoder)
    encoder.encoded.clear()

    def never() -> Iterator[Document | Skipped]:
        raise AssertionError("an unchanged file was read")

    sources = [
        s if n == 2 else SourceFile(s.path, s.digest, never)
        for n, s in enumerate(_sources(changed=2))
        if isinstance(s, SourceFile)
    ]
    manifest = _build(tmp_path, encoder, [*sources])
    assert manifest.reused == 4
    assert len(encoder.encoded) == 1
    assert "quite another text" in encoder.encoded[0]
    corpus = Corpus.load(builds.current(tmp_path, "c"), encoder)
    fresh = build(tmp_path, "fresh", "product", _sources(changed=2), encoder)
    fresh_corpus = Corpus.load(builds.current(tmp_path, "fresh"), encoder)
    for query in ("quite another", "thing 4", "body"):
        assert corpus.search(query).hits == fresh_corpus.search(query).hits
    assert fresh.reused == 0


def test_moved_files_are_not_encoded_again(tmp_path: Path, encoder: HashEncoder) -> None:
    _build(tmp_path, encoder)
    encoder.encoded.clear()
    manifest = _build(tmp_path, encoder, [source("moved", [_document(1)])])
    assert (manifest.documents, manifest.reused, encoder.encoded) == (1, 1, [])


def test_skips_are_kept_over_rebuilds(tmp_path: Path, encoder: HashEncoder) -> None:
    sources = [source("f", [_document(0), Skipped("f", "row broken", 7)]), Skipped("g", "binary")]
    for _ in range(2):
        manifest = _build(tmp_path, encoder, sources)
        assert manifest.skipped == 2
        assert set(left_out(tmp_path)) == {Skipped("f", "row broken", 7), Skipped("g", "binary")}


def test_document_returns_when_its_id_is_free_again(tmp_path: Path, encoder: HashEncoder) -> None:
    old, new = [_document(1, "kettle"), _document(2)], [_document(1, "kettle, descaled")]
    assert _build(tmp_path, encoder, [source("old", old), source("new", new)]).skipped == 1
    encoder.encoded.clear()
    manifest = _build(tmp_path, encoder, [source("other", [_document(3)]), source("new", new)])
    assert (manifest.documents, manifest.skipped, len(encoder.encoded)) == (2, 0, 2)
    again = _build(
        tmp_path, encoder, [source("first", [_document(1, "kettle, dear")]), source("new", new)]
    )
    assert (again.documents, again.skipped) == (1, 1)
    assert _build(tmp_path, encoder, [source("new", new)]).documents == 1


def test_a_file_that_repeats_its_own_id_is_not_read_again(
    tmp_path: Path, encoder: HashEncoder
) -> None:
    file = source("f", [_document(1), _document(1, "another")])
    assert _build(tmp_path, encoder, [file]).skipped == 1

    def never() -> Iterator[Document | Skipped]:
        raise AssertionError("an unchanged file was read")

    assert _build(tmp_path, encoder, [SourceFile("f", file.digest, never)]).skipped == 1


def test_passing_failures_are_read_again(tmp_path: Path, encoder: HashEncoder) -> None:
    slow = [
        source("f", [_document(0)]),
        SourceFile("g", "x", lambda: iter([Skipped("g", "slow", passing=True)])),
    ]
    assert _build(tmp_path, encoder, [*slow]).documents == 1
    manifest = _build(
        tmp_path, encoder, [slow[0], SourceFile("g", "x", lambda: iter([_document(1)]))]
    )
    assert (manifest.documents, manifest.skipped) == (2, 0)


def test_repeated_ids_and_invalid_text_are_skipped(tmp_path: Path, encoder: HashEncoder) -> None:
    bad = Document("bad", "product", "bad", "half \ud800 pair")
    manifest = _build(
        tmp_path, encoder, [source("f", [_document(0), _document(0), bad, _document(1)])]
    )
    assert (manifest.documents, manifest.passages, manifest.skipped) == (2, 2, 2)


def test_skips_that_are_not_utf8_are_stored(tmp_path: Path, encoder: HashEncoder) -> None:
    odd = Skipped("caf\udce9", "it has Gr\udcf6\udcdfe")
    _build(tmp_path, encoder, [*_sources(), odd])
    [skipped] = left_out(tmp_path)
    assert skipped == Skipped("caf?", "it has Gr??e")
    with pytest.raises(InvalidInput, match=r"the first: caf\?: it has Gr\?\?e\."):
        build(tmp_path, "d", "product", [odd], encoder)


@pytest.mark.parametrize("kind", KINDS)
def test_file_names_that_are_not_utf8_cost_only_their_files(
    tmp_path: Path, encoder: HashEncoder, kind: Kind
) -> None:
    root = tmp_path / "src"
    (root / os.fsdecode(b"dir\xe9")).mkdir(parents=True)
    of_kind = {
        "product": (b".csv", "sku,name\n1,Lamp"),
        "reference": (b".html", "<p>x"),
        "code": (b".py", "def f(): pass"),
    }
    suffix, text = of_kind[kind]
    for name in (b"a", b"caf\xe9", b"dir\xe9/b"):
        (root / os.fsdecode(name + suffix)).write_text(text)
    manifest = build(tmp_path, "c", kind, open_source(kind, [root]), encoder)
    assert manifest.documents == 1
    skipped = left_out(tmp_path)
    assert {item.path for item in skipped} == {"dir?", f"caf?{suffix.decode()}"}
    assert {item.reason for item in skipped} == {"the file name is not UTF-8"}
    assert list(names(kind, [root])) == [f"a{suffix.decode()}"]


def test_unreadable_sources_are_not_a_storage_error(tmp_path: Path, encoder: HashEncoder) -> None:
    def listing() -> Iterator[SourceFile | Skipped]:
        yield source("f", [_document(0)])
        raise PermissionError(errno.EACCES, "Permission denied", "/mnt/shop")

    def reading() -> Iterator[Document | Skipped]:
        yield _document(0)
        raise OSError(errno.EIO, "Input/output error", "/mnt/shop")

    for sources in (listing(), [SourceFile("f", "x", reading)]):
        with pytest.raises(
            InvalidInput, match=r"The sources cannot be read \(.*'/mnt/shop'\)"
        ) as caught:
            build(tmp_path, "c", "product", sources, encoder)
        assert caught.value.field == "path"
    assert not (tmp_path / "corpora" / "c").exists()


def test_nothing_to_index_leaves_nothing(tmp_path: Path, encoder: HashEncoder) -> None:
    with pytest.raises(
        InvalidInput, match=r"nothing to index for 'c'. 1 left out, the first: g: binary"
    ):
        build(tmp_path, "c", "product", [Skipped("g", "binary")], encoder)
    with pytest.raises(
        InvalidInput, match="no file that kind 'product' reads: check path and kind"
    ):
        build(tmp_path, "c", "product", [], encoder)
    with pytest.raises(InvalidInput, match=r"reads, or \.gitignore leaves them out: check path"):
        build(tmp_path, "c", "code", [], encoder)
    assert not (tmp_path / "corpora" / "c").exists()


def test_nothing_to_index_says_what_a_reference_is(tmp_path: Path, encoder: HashEncoder) -> None:
    (tmp_path / "openapi.yaml").write_text("openapi: 3.1.0\n")
    sources = open_source("reference", [tmp_path])
    with pytest.raises(
        InvalidInput, match=r"for 'c'. A reference is HTML, .*convert other formats"
    ):
        build(tmp_path / "home", "c", "reference", sources, encoder)


def test_a_failing_source_leaves_the_old_build(tmp_path: Path, encoder: HashEncoder) -> None:
    _build(tmp_path, encoder)
    before = builds.current(tmp_path, "c")

    def failing() -> Iterator[Document | Skipped]:
        yield _document(7)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _build(tmp_path, encoder, [SourceFile("f", "new", failing)])
    assert builds.current(tmp_path, "c") == before
    assert sorted(p.name for p in before.parent.iterdir()) == sorted(["CURRENT", before.name])


def test_another_encoder_encodes_everything(tmp_path: Path, encoder: HashEncoder) -> None:
    _build(tmp_path, encoder)
    second_encoder = HashEncoder()
    second_encoder.dim, second_encoder.fingerprint = 32, "other"
    with pytest.raises(
        EncoderMismatch,
        match=r"'c' was built with encoder 'hash'.*set PURLIN_ENCODER to that one, or build",
    ):
        Corpus.load(builds.current(tmp_path, "c"), second_encoder)
    assert _build(tmp_path, second_encoder).reused == 0
    with closing(Corpus.load(builds.current(tmp_path, "c"), second_encoder)) as corpus:
        assert corpus.search("thing 3", k=1).hits[0].document_id == "d3"


def test_damaged_build_is_not_reused(tmp_path: Path, encoder: HashEncoder) -> None:
    _build(tmp_path, encoder)
    os.truncate(builds.current(tmp_path, "c") / "base" / "vectors.npy", 100)
    assert _build(tmp_path, encoder).reused == 0


def test_corpus_of_another_kind_is_not_reused(tmp_path: Path, encoder: HashEncoder) -> None:
    _build(tmp_path, encoder)
    document = Document("d0", "code", "f", "def f(): pass")
    assert build(tmp_path, "c", "code", [source("f0", [document])], encoder).kind == "code"


def test_two_builds_at_once(tmp_path: Path, encoder: HashEncoder) -> None:
    def nested() -> Iterator[Document | Skipped]:
        with pytest.raises(Busy, match="being built"):
            _build(tmp_path, encoder)
        yield _document(1)

    assert _build(tmp_path, encoder, [SourceFile("f", "x", nested)]).documents == 1


def test_options_are_recorded_and_used(tmp_path: Path, encoder: HashEncoder) -> None:
    options = Options(splitter="simple", dense_weight=0.0, secondary="keep")
    manifest = build(tmp_path, "c", "product", _sources(), encoder, options=options)
    assert (manifest.splitter, manifest.dense_weight, manifest.demote) == ("simple", 0.0, False)
    hit = Corpus.load(builds.current(tmp_path, "c"), encoder).search("thing 3").hits[0]
    expected = hit.scores["lexical"] ** manifest.lexical_power
    assert hit.score == pytest.approx(expected, abs=1e-3)


_ENGLISH = [
    "Wireless over-ear headphones with noise cancelling and thirty hours of battery",
    "Quiet kettle of brushed steel that switches itself off, 1.7 litres",
]
_GERMAN = [
    "Schlagbohrmaschine mit Schnellspannbohrfutter und Zusatzhandgriff",
    "Gartenschlauch mit Anschlussstück und Spritzdüse, zwanzig Meter",
    "Wasserdichte Wanderschuhe für Damen mit herausnehmbarer Einlegesohle",
]


_EVERYDAY_GERMAN = [
    "Warme Socken aus Wolle für den Winter, zwei Paar in Größe 43",
    "Wanderschuhe für Damen, wasserdicht und leicht",
    "Dunkle Schokolade mit Salz, ohne Milch und mit wenig Zucker",
]
_JAPANESE = [
    "真空断熱ボトル、かばんの中で漏れません",
    "電気毛布、三時間後に自動で切れます",
    "折りたたみ踏み台、広い踏み面と手すり付き",
]
_HUNGARIAN = [
    "Rozsdamentes acél vízforraló rejtett fűtőelemmel és vízkőszűrővel",
    "Vastag gyapjú zokni, két pár, hideg téli napokra ajánlott",
    "Összecsukható fellépő széles lépcsőfokokkal és kapaszkodóval",
]


@pytest.mark.parametrize(
    ("titles", "kind", "encoder_name", "weight"),
    [
        (_ENGLISH, "product", "transformer", HYBRID["transformer", "product"].dense_weight),
        (_GERMAN, "product", "transformer", WORDS_LEAD),
        (_JAPANESE, "product", "transformer", WORDS_LEAD),
        (_GERMAN, "reference", "transformer", HYBRID["transformer", "reference"].dense_weight),
        (_ENGLISH, "product", "ensemble", HYBRID["ensemble", "product"].dense_weight),
        (_EVERYDAY_GERMAN, "product", "ensemble", HYBRID["ensemble", "product"].dense_weight),
        (_JAPANESE, "product", "ensemble", HYBRID["ensemble", "product"].dense_weight),
        (_HUNGARIAN, "product", "ensemble", WORDS_LEAD),
    ],
)
def test_words_lead_for_products_in_a_language_that_the_encoder_hardly_knows(
    tmp_path: Path, titles: list[str], kind: Kind, encoder_name: str, weight: float
) -> None:
    encoder = load_encoder(encoder_directory(encoder_name))
    documents = [Document(f"d{number}", kind, title, title) for number, title in enumerate(titles)]
    manifest = build(tmp_path, "c", kind, [source("f", documents)], encoder)
    assert manifest.dense_weight == weight


def test_a_home_that_cannot_be_written_is_named(tmp_path: Path, encoder: HashEncoder) -> None:
    home = tmp_path / "file"
    home.write_text("in the way")
    with pytest.raises(StorageFailed, match=r"file"):
        _build(home, encoder)


_CHILD = """
import sys; from pathlib import Path
from purlin.index.indexing.build import build; from purlin.index.records import Document
from tests.support.hash_encoder import HashEncoder
from tests.support.documents import source
home, count, pause = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
import time
class Slow(HashEncoder):
    def encode(self, texts, **kw):
        print("encoding", flush=True); time.sleep(pause); return super().encode(texts, **kw)
docs = [Document(f"d{n}", "product", f"thing {n}", "x" * 200) for n in range(count)]
build(home, "c", "product", [source("f", docs)], Slow())
"""


def test_full_disk_leaves_the_old_build(tmp_path: Path, encoder: HashEncoder) -> None:
    _build(tmp_path, encoder)
    before = builds.current(tmp_path, "c")
    command = [sys.executable, "-c", limited(_CHILD, 300_000), str(tmp_path), "2000", "0"]
    failed = run(command)
    assert "StorageFailed" in failed.stderr
    assert builds.current(tmp_path, "c") == before
    assert sorted(p.name for p in before.parent.iterdir()) == sorted(["CURRENT", before.name])


@pytest.mark.parametrize("pause_s", [0.0, 0.05, 0.2])
def test_killed_build_leaves_the_old_one_active(
    tmp_path: Path, encoder: HashEncoder, pause_s: float
) -> None:
    _build(tmp_path, encoder)
    before = builds.current(tmp_path, "c").name
    child = subprocess.Popen(
        [sys.executable, "-c", _CHILD, str(tmp_path), "3000", "0.1"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    child.stdout.readline()
    time.sleep(pause_s)
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    corpus = Corpus.load(builds.current(tmp_path, "c"), encoder)
    assert corpus.build == before or corpus.manifest.documents == 3000
    assert _build(tmp_path, encoder).documents == 5
    remaining = {p.name for p in builds.current(tmp_path, "c").parent.iterdir()}
    assert remaining == {"CURRENT", *builds.builds(tmp_path, "c")}


# ---- interim builds


class Other(HashEncoder):
    """Another encoder, that looks at what is served while it works."""

    fingerprint, dim = "other", 32

    def __init__(self, home: Path) -> None:
        super().__init__()
        self.home = home
        self.served: list[Manifest] = []
        self.crashes = False

    def encode(self, texts: Sequence[str], **arguments: Any) -> Vectors:
        if "c" in builds.corpora(self.home):
            directory = builds.current(self.home, "c")
            self.served.append(read_manifest(directory))
            if self.crashes:
                raise KeyboardInterrupt
        return super().encode(texts, **arguments)


def _many(count: int = 600) -> list[SourceFile | Skipped]:
    # Two files have one document of the same id: they have to be read again by the next build.
    return [
        *(source(f"f{n}", [_document(n)]) for n in range(count)),
        source("again", [_document(3, "another third")]),
    ]


def test_progress_goes_on_while_the_graph_is_made(
    tmp_path: Path, encoder: HashEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("purlin.index.indexing.builder.SHOWN_ROWS", 500)
    monkeypatch.setattr(dense, "EXACT_ROWS", 500)
    monkeypatch.setattr(dense, "_BATCH_ROWS", 250)
    counts: list[tuple[int, int | None]] = []

    def note(stage: str, done: int, total: int | None) -> None:
        if stage == "index":
            counts.append((done, total))

    build(tmp_path, "c", "product", _many(), encoder, progress=note)
    assert counts == [(0, 600), (250, 600), (500, 600), (600, 600)]


def test_an_interim_build_serves_until_the_vectors_are_there(
    tmp_path: Path, encoder: HashEncoder
) -> None:
    calls: list[str] = []
    slow = Other(tmp_path)
    options = {"interim": encoder, "progress": lambda stage, *_: calls.append(stage)}
    manifest = build(tmp_path, "c", "product", _many(), slow, **options)
    assert list(dict.fromkeys(calls)) == ["read", "interim", "encode"]
    served = slow.served[0]
    assert (served.interim, served.encoder["fingerprint"]) == (True, encoder.fingerprint)
    assert (served.documents, served.skipped) == (600, 1)
    assert (manifest.interim, manifest.encoder["fingerprint"]) == (False, "other")
    assert (manifest.documents, manifest.skipped, manifest.reused) == (600, 1, 0)

    assert builds.builds(tmp_path, "c") == [builds.current(tmp_path, "c").name]
    with closing(Corpus.load(builds.current(tmp_path, "c"), slow)) as corpus:
        assert corpus.search("thing 77", k=1).hits[0].document_id == "d77"
    again = build(tmp_path, "c", "product", _many(), slow, interim=encoder)
    assert again == manifest


def test_an_open_interim_build_stays_usable(tmp_path: Path, encoder: HashEncoder) -> None:
    slow, opened = Other(tmp_path), []

    def look(stage: str, done: int, total: int | None) -> None:
        if stage == "encode" and not opened:
            opened.append(Corpus.load(builds.current(tmp_path, "c"), encoder))

    build(tmp_path, "c", "product", _many(), slow, interim=encoder, progress=look)
    with closing(opened[0]) as corpus:
        assert corpus.manifest.interim
        assert corpus.search("thing 77", k=1).hits[0].document_id == "d77"


def test_a_crash_leaves_the_interim_build_to_go_on_from(
    tmp_path: Path, encoder: HashEncoder
) -> None:
    slow = Other(tmp_path)
    slow.crashes = True
    with pytest.raises(KeyboardInterrupt):
        build(tmp_path, "c", "product", _many(), slow, interim=encoder)
    interim = builds.current(tmp_path, "c")
    assert read_manifest(interim).interim

    slow.crashes = False
    encoder.encoded.clear()
    manifest = build(tmp_path, "c", "product", _many(), slow, interim=encoder)
    assert (manifest.interim, manifest.documents, encoder.encoded) == (False, 600, [])
    assert not interim.exists()


def test_few_passages_have_no_interim_build(tmp_path: Path, encoder: HashEncoder) -> None:
    slow = Other(tmp_path)
    build(tmp_path, "c", "product", _many(60), slow, interim=encoder)
    assert (slow.served, encoder.encoded) == ([], [])


def test_vectors_are_those_of_the_encoder(tmp_path: Path, encoder: HashEncoder) -> None:
    _build(tmp_path, encoder)
    kept = np.load(builds.current(tmp_path, "c") / "base" / "vectors.npy")
    np.testing.assert_allclose(kept, encoder.encode([*encoder.encoded], role="passage"), atol=1e-3)
