"""Queries for one more of a kind, and the types and lists that answer them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purlin.index.records import Document, Location
from purlin.index.search.ranking.kinds import (
    Kind,
    folders_of,
    kind_in,
    likely_types,
    listed,
    members_of,
    own_words,
)
from purlin.index.search.why import why
from tests.support.corpora import open_repository

DRIVER = Kind(frozenset(["output", "driver"]), "driver")


@pytest.mark.parametrize(
    ("query", "words", "head"),
    [
        ("add a new audio output driver", {"audio", "output", "driver"}, "driver"),
        ("How do I add another storage backend?", {"storag", "backend"}, "backend"),
        ("implement a custom cache provider for redis", {"cach", "provid"}, "provid"),
        ("where do I add a new SlashCommand", {"slash", "command"}, "command"),
        ("add support for a new file format", {"file", "format"}, "format"),
        ("write a plugin that prints", {"plugin"}, "plugin"),
        ("register a custom storage driver in the registry", {"storag", "driver"}, "driver"),
        ("add a plugin to the controller", {"plugin"}, "plugin"),
        ("add a new facet type", {"facet"}, "facet"),
        (
            "add a new plugin for another map format",
            {"plugin", "map", "format"},
            "plugin",
        ),
    ],
)
def test_queries_for_one_more_of_a_kind(query: str, words: set[str], head: str) -> None:
    assert kind_in(query) == Kind(frozenset(words), head)


@pytest.mark.parametrize(
    "query",
    [
        "add a user to the group",
        "add a new user to the group",
        "create a new session",
        "new driver",
        "add two numbers",
        "add a new",
        "audio output driver",
        "register the drivers",
        "why is a new driver added twice",
        "add a new one two three four five six driver",
    ],
)
def test_other_queries(query: str) -> None:
    assert kind_in(query) is None


@pytest.mark.parametrize(
    "piece", ["add a new ", "add a a-", "add a new x for another ", "how do we add another "]
)
def test_long_queries_take_no_time(piece: str) -> None:
    assert kind_in(piece * 20_000 + "\n?") is None


@given(st.text(max_size=200))
def test_any_text_is_read(query: str) -> None:
    kind = kind_in(f"add a new {query}")
    assert kind is None or kind.head in kind.words


def definition(
    title: str, path: str, signature: str, kind: str = "class", body: str = ""
) -> Document:
    fields = {"kind": kind, "signature": signature}
    return Document(title, "code", title, body, location=Location(path), fields=fields)


def test_types_are_those_of_several_heads() -> None:
    documents = [
        definition("AlsaDriver", "alsa.py", "class AlsaDriver(base.OutputDriver, Logged)"),
        definition("JackDriver", "jack.py", "class JackDriver(OutputDriver, Logged)"),
        definition("OnlyDriver", "only.py", "class OnlyDriver(LonelyDriver)"),
        definition("open_driver", "open.py", "def open_driver(driver: CallDriver)", "function"),
        definition("open_other", "other.py", "def open_other(driver: CallDriver)", "function"),
    ]
    assert likely_types(DRIVER, documents) == ["OutputDriver"]
    in_one_file = [
        definition(f"{name}Driver", "all.py", f"class {name}Driver(Driver, OutputStream)")
        for name in ("Alsa", "Jack")
    ]
    # What has the kind's last word is likelier.
    assert likely_types(DRIVER, in_one_file) == ["Driver", "OutputStream"]


def test_a_type_of_many_packages_is_likely() -> None:
    methods = [
        definition("Driver.open", f"{name}/{name}.go", "func (d *Driver) open()", "method")
        for name in ("alsa", "jack")
    ]
    assert likely_types(DRIVER, methods) == ["Driver"]
    assert likely_types(DRIVER, methods[:1]) == []


def test_stems_of_one_word_are_alike() -> None:
    kind = kind_in("add a new notification plugin")
    assert kind is not None
    assert kind.share("NotifyBase") == 1.0
    assert kind.share("NotBase") == 0.0
    assert kind.share("PluginManager") > kind.share("NotifyManager") == 0.5


def test_folders_have_the_name_of_the_kind() -> None:
    paths = ["src/drivers/alsa.c", "src/drivers/jack/main.c", "output/drivers/a.c", "src/main.c"]
    assert folders_of(DRIVER, paths) == ["output/drivers", "src/drivers"]
    assert members_of("src/drivers", paths[:2]) == ["alsa", "jack"]
    assert folders_of(Kind(frozenset(["subcommand"]), "subcommand"), ["a/commands/add.rs"]) == [
        "a/commands"
    ]


def test_own_words_are_those_that_others_lack() -> None:
    names = ["ao_alsa", "ao_jack", "ao_null_driver", "ao_pulse", "ao"]
    assert own_words(DRIVER, names) == [
        frozenset(["alsa"]),
        frozenset(["jack"]),
        frozenset(["null"]),
        frozenset(["puls"]),
    ]


def test_lists_name_most_of_the_kind() -> None:
    siblings = own_words(DRIVER, ["alsa", "jack", "pulse", "sndio"])

    def level(body: str, role: str = "source") -> float:
        fields = {"role": role}
        return listed(siblings, Document("a", "code", "drivers", body, fields=fields))

    short = level("{&audio_out_alsa, &audio_out_jack, &audioPulse, SNDIO}")
    long = level("alsa jack pulse sndio " + " ".join(f"word{chr(97 + n)}" for n in range(26)))
    assert 1 > short > long > 0
    assert short > level("alsa, jack, pulse") > 0
    assert level("alsa, jack") == 0
    assert level("alsa, jack, pulse, sndio", "test") == 0


FILES = {
    "audio/all.h": "typedef struct driver driver;\n",
    "audio/driver.h": "struct driver {\n    const char *name;\n    int (*start)(void);\n    void (*stop)(void);\n};\n",
    "audio/table.c": "const struct driver *const all[] = {\n"
    + "".join(f"    &{name}_driver,\n" for name in ("alsa", "jack", "pulse", "sndio"))
    + "    0\n};\n",
    "ui/new_driver.c": "void add_new_driver(void)\n{\n    show_dialog();\n}\n",
    **{
        f"audio/{name}.c": f"static int start(void)\n{{\n    return {name}_open();\n}}\n\n"
        f'const struct driver {name}_driver = {{\n    .name = "{name}",\n    .start = start,\n}};\n'
        for name in ("alsa", "jack", "pulse", "sndio")
    },
}


def test_the_type_and_the_list_come_first_and_say_why(tmp_path: Path) -> None:
    with open_repository(tmp_path, FILES) as corpus:
        query = "add a new driver"
        hits = corpus.search(query, k=4, explain=True).hits
        other = corpus.search("new driver", k=1).hits
        filtered = corpus.search(query, k=4, filter={"path": "ui/new_driver.c"}).hits
        pages = [
            hit.title for start in (0, 2) for hit in corpus.search(query, k=2, offset=start).hits
        ]

    assert {hit.location.path for hit in hits[:2]} == {"audio/driver.h", "audio/table.c"}
    assert all(why(query, hit).endswith("mostly what others of the kind share") for hit in hits[:2])
    assert all(0.5 < hit.score < 1 for hit in hits[:2])
    assert other[0].title == "add_new_driver"
    assert [hit.title for hit in filtered] == ["add_new_driver"]
    assert pages == [hit.title for hit in hits]


def test_of_types_with_one_name_an_interface_is_meant(tmp_path: Path) -> None:
    files = {
        f"{name}/{name}.go": f"package {name}\n\ntype codec struct {{\n\tlevel int\n\tname string\n}}\n\n"
        f"func (c *codec) Encode(text string) string {{\n\treturn {name}(text)\n}}\n"
        for name in ("gzip", "zstd", "brotli")
    }
    files["codec.go"] = "package codec\n\ntype Codec interface {\n\tEncode(text string) string\n}\n"
    with open_repository(tmp_path, files) as corpus:
        first, *_ = corpus.search("add a new codec", k=3).hits
    assert (first.title, first.location.path) == ("Codec", "codec.go")
