"""A server that indexes sources again when they change; its indexer is a process of its own."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from purlin.app.corpora import watching
from purlin.app.main import create_app
from purlin.app.settings import Settings
from purlin.index import builds, versions
from purlin.index.builds.manifests import read_manifest
from purlin.index.encoder import load_encoder
from purlin.index.indexing.build import build
from purlin.index.indexing.builder import Options
from purlin.index.records import Kind
from purlin.index.sources import open_source
from tests.support.serving import ready, until
from tests.support.static_files import write_static


@pytest.fixture
def frequent_rescans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "RESCAN_S", 0.2)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "names.py").write_text("def file_name():\n    return 'filename'\n")
    (root / "web.py").write_text("def get_response():\n    return 'http response'\n")
    return root


def index(tmp_path: Path, name: str, kind: Kind, root: Path) -> None:
    encoder = load_encoder(_static(tmp_path))
    sources = open_source(kind, [root], secondary="leave-out")
    options = Options(secondary="leave-out", dense_weight=0.25, origin=(str(root),))
    build(tmp_path / "home", name, kind, sources, encoder, options=options)


def _static(tmp_path: Path) -> Path:
    directory = tmp_path / "static"
    return directory if directory.exists() else write_static(directory)


@contextmanager
def watching_server(tmp_path: Path) -> Iterator[TestClient]:
    settings = Settings(home=tmp_path / "home", encoder=_static(tmp_path), watch=True)
    with TestClient(create_app(settings)) as client:
        # A search waits for its corpus, a description does not.
        until(lambda: client.get("/readyz").status_code == 200)
        yield client


def titles(client: TestClient, corpus: str = "code") -> set[str]:
    body = {"query": "file name", "corpus": corpus}
    return {hit["title"] for hit in client.post("/search", json=body).json().get("hits", ())}


def described(client: TestClient, corpus: str = "code") -> dict[str, Any]:
    description: dict[str, Any] = client.get(f"/corpora/{corpus}").json()
    return description


def test_changes_are_indexed(tmp_path: Path, project: Path) -> None:
    index(tmp_path, "code", "code", project)
    with watching_server(tmp_path) as client:
        assert titles(client) == {"file_name", "get_response"}

        (project / "lib").mkdir()
        (project / "lib" / "cafe.py").write_text("def cafe():\n    return 2\n")
        until(lambda: "cafe" in titles(client))
        (project / "web.py").unlink()
        (project / "names.py").write_text("def prefix():\n    return 'prefix'\n")
        until(lambda: titles(client) == {"cafe", "prefix"})

        # As it was built the first time.
        manifest = read_manifest(builds.current(tmp_path / "home", "code"))
        assert (manifest.secondary, manifest.dense_weight) == ("leave-out", 0.25)
        assert manifest.encoder["name"] == "tiny-static"
        assert manifest.sources == (str(project),)


def test_what_changed_while_the_server_was_down_is_indexed(tmp_path: Path, project: Path) -> None:
    index(tmp_path, "code", "code", project)
    (project / "cafe.py").write_text("def cafe():\n    return 2\n")
    with watching_server(tmp_path) as client:
        until(lambda: "cafe" in titles(client))


def test_what_another_version_made_is_made_anew(
    tmp_path: Path,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with monkeypatch.context() as earlier_version:
        earlier_version.setattr(versions, "TEXTS", 1)
        index(tmp_path, "code", "code", project)

    with ready(tmp_path / "home", load_encoder(_static(tmp_path))) as client:
        assert titles(client) == {"file_name", "get_response"}
        warning = described(client)["warning"]
        assert "rules of another version" in warning
        assert "`purlin index build code ... --name code`" in warning
        assert str(tmp_path) not in warning
        assert warning in caplog.messages

    with watching_server(tmp_path) as client:
        until(lambda: "rules of another version" not in described(client).get("warning", ""))
        assert titles(client) == {"file_name", "get_response"}


def test_a_file_that_is_replaced_is_indexed(tmp_path: Path) -> None:
    feed = tmp_path / "feed.jsonl"
    feed.write_text('{"id": "1", "title": "file"}\n')
    index(tmp_path, "shop", "product", feed)
    with watching_server(tmp_path) as client:
        assert titles(client, "shop") == {"file"}
        (tmp_path / "new.jsonl").write_text(
            '{"id": "1", "title": "file"}\n{"id": "2", "title": "cafe"}\n'
        )
        (tmp_path / "new.jsonl").replace(feed)
        until(lambda: titles(client, "shop") == {"file", "cafe"})


def _beir(titles: list[str]) -> str:
    rows = ({"_id": title, "title": title, "text": "a name"} for title in titles)
    return "".join(json.dumps(row) + "\n" for row in rows)


def _xml(titles: list[str]) -> str:
    rows = (f"<product><id>{title}</id><title>{title}</title></product>" for title in titles)
    return f"<products>{''.join(rows)}</products>"


def _openapi(titles: list[str]) -> str:
    operation = {"responses": {"200": {"description": "fine"}}}
    paths = {f"/{title}": {"get": operation | {"operationId": title}} for title in titles}
    about = {"title": "Names", "version": "1"}
    return json.dumps({"openapi": "3.1.0", "info": about, "paths": paths})


@pytest.mark.parametrize(
    ("kind", "root", "name", "content"),
    [
        ("product", "shop.csv", "shop.csv", lambda titles: "\n".join(["title", *titles, ""])),
        ("product", "", "shop.json", lambda titles: json.dumps([{"title": t} for t in titles])),
        ("product", "shop.xml", "shop.xml", _xml),
        ("code", "corpus.jsonl", "corpus.jsonl", _beir),
        ("reference", "", "openapi.json", _openapi),
    ],
)
def test_a_source_of_any_format_is_indexed_again(
    tmp_path: Path, kind: Kind, root: str, name: str, content: Callable[[list[str]], str]
) -> None:
    source = tmp_path / "source" / name
    source.parent.mkdir()
    source.write_text(content(["file"]))
    index(tmp_path, "c", kind, source.parent / root)
    with watching_server(tmp_path) as client:
        assert not any("cafe" in title for title in titles(client, "c"))
        (tmp_path / "new").write_text(content(["file", "cafe"]))
        (tmp_path / "new").replace(source)
        until(lambda: any("cafe" in title for title in titles(client, "c")))


def test_a_feed_that_is_being_written_replaces_nothing(tmp_path: Path) -> None:
    feed = tmp_path / "feed.jsonl"
    whole = '{"id": "1", "title": "file"}\n{"id": "2", "title": "cafe"}\n'
    feed.write_text(whole)
    index(tmp_path, "shop", "product", feed)
    with watching_server(tmp_path) as client:
        feed.write_text('{"id": "1", "title": "file name"}\n{"id": "2", "ti')
        until(
            lambda: "feed.jsonl:2 is not valid JSON" in described(client, "shop").get("problem", "")
        )
        assert titles(client, "shop") == {"file", "cafe"}

        feed.write_text(whole.replace("cafe", "name"))
        until(lambda: titles(client, "shop") == {"file", "name"})
        until(lambda: "problem" not in described(client, "shop"))


def test_a_feed_that_pauses_behind_a_row_is_awaited(tmp_path: Path) -> None:
    """Such a file looks whole; the builds are those that the server has switched to."""
    feed = tmp_path / "feed.csv"
    rows = [f"{number},file {number}\n" for number in range(30)]
    feed.write_text("id,title\n" + "".join(rows))
    index(tmp_path, "shop", "product", feed)
    with watching_server(tmp_path) as client:
        with feed.open("w") as export:
            export.write("id,title\n" + "".join(rows[:20]))
            for row in rows[20:]:
                export.flush()
                time.sleep(0.5)
                export.write(row.replace("file", "name"))
        until(lambda: "name 29" in titles(client, "shop"))
        assert len(builds.builds(tmp_path / "home", "shop")) == 2


def test_a_table_that_is_emptied_keeps_its_products(tmp_path: Path) -> None:
    """As by a shell that begins to write an export, beside tables with most of the products."""
    shop = tmp_path / "shop"
    shop.mkdir()
    (shop / "large.csv").write_text("id,title\n1,file\n2,name\n3,web\n")
    (shop / "small.csv").write_text("id,title\n4,cafe\n")
    index(tmp_path, "shop", "product", shop)
    with watching_server(tmp_path) as client:
        (shop / "small.csv").write_text("")
        until(lambda: "small.csv holds no rows" in described(client, "shop").get("problem", ""))
        assert "cafe" in titles(client, "shop")

        # One that has only its header says that they are gone.
        (shop / "small.csv").write_text("id,title\n")
        until(lambda: titles(client, "shop") == {"file", "name", "web"})


def test_what_a_rebuild_has_to_say_is_logged_and_shown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    feed = tmp_path / "feed.csv"
    feed.write_text("id,name,description\n1,file,Of oak\n2,cafe,Of ash\n")
    index(tmp_path, "shop", "product", feed)
    with watching_server(tmp_path) as client:
        assert described(client, "shop")["columns"]["title"] == ["name"]
        assert "warnings" not in described(client, "shop")

        feed.write_text("id,label_x,description\n1,file,Of oak\n2,Of ash\n3,name,Of elm\n")
        until(lambda: described(client, "shop").get("warnings"))
        assert "title" not in described(client, "shop")["columns"]
        left_out = "has 2 cells where the header has 3"
        assert described(client, "shop")["left_out"] == [
            {"reason": left_out, "count": 1, "first": ["feed.csv:3"]}
        ]
        logged = [record.message for record in caplog.records if record.levelname == "WARNING"]
        assert 'shop: title is read from no column; before, it was "name"' in logged
        assert f"shop: 1 left out (feed.csv:3): {left_out}" in logged


def test_what_changes_before_the_kernel_watches_is_indexed(
    tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def watch(*_directories: Path, **_options: object) -> Iterator[set[object]]:
        """Watch so late that the check before has ended, and the file after it is not reported."""
        until(lambda: bool(service) and "code" not in service[0].builder.news().building)
        (project / "cafe.py").write_text("def cafe():\n    return 2\n")
        while True:
            time.sleep(0.05)
            yield set()

    service: list[Any] = []
    monkeypatch.setattr("watchfiles.watch", watch)
    monkeypatch.setattr(watching, "FULL_CHECK_S", 3600.0)
    index(tmp_path, "code", "code", project)
    with watching_server(tmp_path) as client:
        service.append(client.app_state["service"])
        until(lambda: "cafe" in titles(client))


@pytest.mark.usefixtures("frequent_rescans")
def test_a_root_that_is_gone_keeps_its_documents(tmp_path: Path, project: Path) -> None:
    index(tmp_path, "code", "code", project)
    with watching_server(tmp_path) as client:
        active = described(client)["build"]
        project.rename(tmp_path / "away")
        until(lambda: "are missing" in described(client).get("problem", ""))
        assert described(client)["state"] == "serving"
        assert described(client)["build"] == active

        (tmp_path / "away" / "cafe.py").write_text("def cafe():\n    return 2\n")
        (tmp_path / "away").rename(project)
        until(lambda: "cafe" in titles(client))
        until(lambda: "problem" not in described(client))


@pytest.mark.usefixtures("frequent_rescans")
def test_a_corpus_that_is_deleted_has_no_problem_any_more(tmp_path: Path, project: Path) -> None:
    index(tmp_path, "code", "code", project)
    with watching_server(tmp_path) as client:
        project.rename(tmp_path / "away")
        until(lambda: "are missing" in described(client).get("problem", ""))
        builds.delete(tmp_path / "home", "code")
        until(lambda: client.get("/corpora").json() == {"corpora": []})


@pytest.mark.usefixtures("frequent_rescans")
def test_a_root_that_fails_does_not_stop_the_watch_of_others(tmp_path: Path, project: Path) -> None:
    index(tmp_path, "code", "code", project)
    feed = tmp_path / "feed" / "feed.jsonl"
    feed.parent.mkdir()
    feed.write_text('{"id": "1", "title": "file"}\n')
    index(tmp_path, "shop", "product", feed)

    # The system refuses to look below a link to a name that is too long.
    feed.parent.rename(tmp_path / "away")
    feed.parent.symlink_to("x" * 300)
    with watching_server(tmp_path) as client:
        (project / "cafe.py").write_text("def cafe():\n    return 2\n")
        until(lambda: "cafe" in titles(client))


@pytest.mark.usefixtures("frequent_rescans")
def test_a_home_that_fails_for_a_while_is_watched_again(
    tmp_path: Path,
    project: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    index(tmp_path, "code", "code", project)
    corpora = tmp_path / "home" / "corpora"
    with watching_server(tmp_path) as client:
        corpora.rename(tmp_path / "away")
        corpora.touch()
        until(lambda: "corpora is a file" in caplog.text)
        corpora.unlink()
        (tmp_path / "away").rename(corpora)

        (project / "cafe.py").write_text("def cafe():\n    return 2\n")
        until(lambda: "cafe" in titles(client))


def test_deleting_everything_is_reported(tmp_path: Path, project: Path) -> None:
    index(tmp_path, "code", "code", project)
    with watching_server(tmp_path) as client:
        for path in project.iterdir():
            path.unlink()
        until(lambda: "nothing to index" in described(client).get("problem", ""))
        assert titles(client) == {"file_name", "get_response"}


def test_a_flood_of_changes_is_one_build(tmp_path: Path, project: Path) -> None:
    index(tmp_path, "code", "code", project)
    with watching_server(tmp_path) as client:
        until(lambda: client.get("/readyz").status_code == 200)
        for number in range(2_000):
            (project / f"m{number}.py").write_text(f"def f{number}():\n    return {number}\n")
        until(lambda: described(client).get("documents") == 2_002)
        # The first one, one that began amidst the changes, and the one that has them all.
        assert len(builds.builds(tmp_path / "home", "code")) <= 3


def test_changes_that_no_source_reads_make_no_build(tmp_path: Path, project: Path) -> None:
    index(tmp_path, "code", "code", project)
    with watching_server(tmp_path) as client:
        active = described(client)["build"]
        (project / ".git").mkdir()
        (project / ".git" / "index").write_text("changed")
        (project / "picture.png").write_bytes(b"\x89PNG")
        (project / "cafe.py").write_text("def cafe():\n    return 2\n")
        until(lambda: "cafe" in titles(client))
        made = builds.builds(tmp_path / "home", "code")
        assert len(made) == 2
        assert made[0] == active


@pytest.mark.usefixtures("frequent_rescans")
def test_new_and_deleted_corpora_are_followed(tmp_path: Path, project: Path) -> None:
    with watching_server(tmp_path) as client:
        index(tmp_path, "code", "code", project)
        until(lambda: titles(client) == {"file_name", "get_response"})
        (project / "cafe.py").write_text("def cafe():\n    return 2\n")
        until(lambda: "cafe" in titles(client))
        builds.delete(tmp_path / "home", "code")
        shutil.rmtree(project)
        until(lambda: client.get("/corpora").json() == {"corpora": []})


@pytest.mark.usefixtures("frequent_rescans")
def test_changes_are_indexed_where_the_kernel_has_no_watcher_left(
    tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_directories: Path, **_options: object) -> Iterator[set[object]]:
        raise RuntimeError("Error creating recommended watcher: Too many open files (os error 24)")

    monkeypatch.setattr("watchfiles.watch", refuse)
    monkeypatch.setattr(watching, "FULL_CHECK_S", 0.5)
    index(tmp_path, "code", "code", project)
    with watching_server(tmp_path) as client:
        until(lambda: titles(client) == {"file_name", "get_response"})
        (project / "cafe.py").write_text("def cafe():\n    return 2\n")
        until(lambda: "cafe" in titles(client))

    warnings = [record.message for record in caplog.records if record.name == "purlin.watching"]
    assert [warning for warning in warnings if "Too many open files" in warning]
