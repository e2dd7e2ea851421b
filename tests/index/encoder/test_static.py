"""The static encoder against a loop in plain Python, its words, and its files."""

import json
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from purlin.index.encoder import (
    SETTINGS,
    STATIC_ENCODER,
    TRANSFORMER_ENCODER,
    encoder_directory,
    load_encoder,
)
from purlin.index.encoder.exported import refusing
from purlin.index.encoder.static import VECTORS, VOCABULARY, WEIGHTS, StaticEncoder, StaticSettings
from purlin.index.encoder.transformer import Encoder
from purlin.index.encoder.vocabulary import Vocabulary, parts
from purlin.index.errors import Damaged, NotFound
from purlin.index.records import Role
from tests.support.static_files import WORDS, write_static
from tests.support.traffic import run

TEXTS = [
    "getHTTPResponse(fileName)",
    "the file, the name, the response",
    "prefix2 prefix2 café",
    "JavaScript",
    "x",
]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_static(tmp_path_factory.mktemp("encoders") / "static")


@pytest.fixture(scope="module")
def encoder(directory: Path) -> StaticEncoder:
    return StaticEncoder.load(directory)


@pytest.mark.parametrize(
    ("identifier", "expected"),
    [
        ("getHTTPResponse", ["get", "http", "response"]),
        ("OAuth2PasswordBearer", ["o", "auth", "2", "password", "bearer"]),
        ("XMLHttpRequest", ["xml", "http", "request"]),
        ("utf8", ["utf", "8"]),
        ("IOError", ["io", "error"]),
        ("GroßeZahl", ["großezahl"]),
        ("文字", ["文字"]),
        ("ABC", ["abc"]),
    ],
)
def test_identifiers_fall_into_parts(identifier: str, expected: list[str]) -> None:
    assert parts(identifier) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("getHTTPResponse", ["get", "http", "response"]),
        ("JavaScript", ["javascript"]),
        ("fileName file_name", ["filename", "file", "name"]),
        ("prefixname", ["pre", "##fix", "##name"]),
        ("Café CAFÉ", ["cafe", "cafe"]),
        ("prefix2 = 'http'", ["pre", "##fix", "2", "http"]),
        ("qqfilexx", []),
        ("", []),
        ("\ud800 get \x00", ["get"]),
        ("a" * 1000, []),
    ],
)
def test_texts_fall_into_known_words_and_pieces(text: str, expected: list[str]) -> None:
    vocabulary = Vocabulary(WORDS)
    assert [vocabulary.words[row] for row in vocabulary.rows(text)] == expected


def test_identifiers_are_forgotten_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("purlin.index.encoder.vocabulary._MAX_REMEMBERED", 3)
    vocabulary = Vocabulary(WORDS)
    text = "get file name response http get"
    assert list(vocabulary.rows(text)) == [0, 4, 6, 2, 1, 0]
    assert len(vocabulary._rows_by_identifier) <= 3


@pytest.mark.parametrize("role", ["query", "passage"])
def test_vectors_equal_those_of_a_plain_loop(
    encoder: StaticEncoder, directory: Path, role: Role
) -> None:
    table, weights = np.load(directory / VECTORS), np.load(directory / WEIGHTS)
    vocabulary = Vocabulary(WORDS)

    for text, vector in zip(TEXTS, encoder.encode(TEXTS, role=role), strict=True):
        expected = [0.0] * 8
        for row, count in Counter(vocabulary.rows(text)).items():
            weight = float(weights[row, 0 if role == "query" else 1]) * count**0.5
            expected = [
                total + weight * int(value)
                for total, value in zip(expected, table[row], strict=True)
            ]
        length = sum(value * value for value in expected) ** 0.5 or 1.0
        np.testing.assert_allclose(vector, np.array(expected) / length, atol=1e-5)


def test_vectors_have_length_one_or_zero(encoder: StaticEncoder) -> None:
    lengths = np.linalg.norm(encoder.encode(TEXTS, role="passage"), axis=1)
    np.testing.assert_allclose(lengths, [1, 1, 1, 1, 0], atol=1e-6)


def test_vectors_do_not_depend_on_other_texts(encoder: StaticEncoder) -> None:
    many = encoder.encode(TEXTS * 300, role="passage")
    with ThreadPoolExecutor(4) as pool:
        single = list(pool.map(lambda text: encoder.encode([text], role="passage")[0], TEXTS * 300))
    assert np.array_equal(many, np.stack(single))


def test_texts_are_cut_at_max_tokens(tmp_path: Path) -> None:
    encoder = StaticEncoder.load(write_static(tmp_path / "short", max_tokens=3))
    long, short = encoder.encode(["get the file response", "get the file"], role="passage")
    assert np.array_equal(long, short)
    assert encoder.count_tokens(["get the file response", ""]).tolist() == [4, 0]


def test_progress_counts_every_text(encoder: StaticEncoder) -> None:
    counts: list[int] = []
    encoder.encode(TEXTS * 200, role="query", progress=counts.append)
    assert sum(counts) == 1000
    assert len(counts) > 1


def test_no_text_gives_no_vector(encoder: StaticEncoder) -> None:
    assert encoder.encode([], role="query").shape == (0, 8)


def test_load_encoder_opens_either_type(directory: Path) -> None:
    assert isinstance(load_encoder(directory), StaticEncoder)
    assert isinstance(load_encoder(TRANSFORMER_ENCODER), Encoder)


def test_load_encoder_names_a_missing_directory(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no encoder directory"):
        load_encoder(tmp_path / "none")


def test_words_stand_for_the_released_encoders() -> None:
    assert encoder_directory("static") == STATIC_ENCODER
    assert encoder_directory("transformer") == TRANSFORMER_ENCODER
    assert encoder_directory(Path("static")) == STATIC_ENCODER
    assert encoder_directory("models/static") == Path("models/static")


def test_the_fingerprint_covers_every_setting_and_file(directory: Path, tmp_path: Path) -> None:
    fingerprints = {
        StaticEncoder.load(write_static(tmp_path / str(number), words, **settings)).fingerprint
        for number, (words, settings) in enumerate(
            [
                (WORDS, {}),
                (WORDS, {"max_tokens": 50}),
                (WORDS, {"dim": 4}),
                ([*WORDS[:-1], "an"], {}),
            ]
        )
    }
    assert len(fingerprints) == 4
    assert StaticEncoder.load(directory).fingerprint in fingerprints


@pytest.mark.parametrize("name", [VECTORS, WEIGHTS, VOCABULARY])
def test_an_altered_file_is_named(tmp_path: Path, name: str) -> None:
    copied = write_static(tmp_path / "copied")
    (copied / name).write_bytes((copied / name).read_bytes()[:-1])
    with pytest.raises(Damaged, match=name):
        load_encoder(copied)


def test_short_memory_is_not_blamed_on_the_file(directory: Path) -> None:
    with pytest.raises(Damaged, match=r"vectors\.npy cannot be used: memory ran out\. Raise"):
        with refusing("encoder", directory / "vectors.npy"):
            bytearray(sys.maxsize)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("dim", True, "dim is True"),
        ("max_tokens", 0, "max_tokens is 0"),
        ("files", {VECTORS: ""}, "files are"),
        ("name", None, "name is None"),
    ],
)
def test_invalid_settings_are_named(tmp_path: Path, key: str, value: object, message: str) -> None:
    copied = write_static(tmp_path / "copied")
    settings = json.loads((copied / SETTINGS).read_text())
    (copied / SETTINGS).write_text(json.dumps(settings | {key: value}))
    with pytest.raises(Damaged, match=message):
        load_encoder(copied)


def test_vectors_of_another_shape_are_refused(tmp_path: Path) -> None:
    written = write_static(tmp_path / "written")
    settings = json.loads((written / SETTINGS).read_text()) | {"dim": 4}
    wrong = write_static(tmp_path / "wrong", dim=4)
    (wrong / VECTORS).write_bytes((written / VECTORS).read_bytes())
    digests = json.loads((wrong / SETTINGS).read_text())["files"]
    digests[VECTORS] = settings["files"][VECTORS]

    altered = StaticSettings("static", "tiny-static", 4, 100, digests)
    content = {**settings, "files": digests, "fingerprint": altered.fingerprint}
    (wrong / SETTINGS).write_text(json.dumps(content))
    with pytest.raises(Damaged, match=r"vectors\.npy.*not int8 \(13, 4\)"):
        load_encoder(wrong)


def test_a_static_encoder_loads_neither_onnxruntime_nor_tokenizers(directory: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from purlin.index.encoder import load_encoder; "
        f"load_encoder(Path({str(directory)!r})).encode(['get file'], role='query'); "
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    loaded = run([sys.executable, "-c", script]).stdout.split()
    assert "numpy" in loaded
    assert {"onnxruntime", "tokenizers", "faiss", "torch"}.isdisjoint(loaded)


def test_the_released_encoder_knows_code() -> None:
    encoder = load_encoder(STATIC_ENCODER)
    passages = [
        "def fetchURL(address):\n    return urllib.request.urlopen(address).read()",
        "def removeDirectory(path):\n    shutil.rmtree(path)",
        "func parseJSON(data []byte) (value any, err error)",
    ]
    queries = ["download a web page", "delete a folder", "decode json"]
    cosines = encoder.encode(queries, role="query") @ encoder.encode(passages, role="passage").T
    assert cosines.argmax(axis=1).tolist() == [0, 1, 2]
    assert encoder.name == STATIC_ENCODER.name
