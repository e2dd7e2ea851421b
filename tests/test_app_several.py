"""Search of several corpora over HTTP."""

from __future__ import annotations

from pathlib import Path

import pytest

from purlin.index.builds import current
from tests.conftest import HashEncoder
from tests.serving import FUNCTIONS, make, numbered, problem, serving, until


def test_several_corpora_are_searched_at_once(home: Path, encoder: HashEncoder) -> None:
    make(home, "more", FUNCTIONS[1:], encoder)
    make(home, "manual", numbered(3, "sort"), encoder, "reference")
    with serving(home) as client:
        body = {"query": "sort numbers", "corpus": ["more", "code", "more"], "k": 3}
        reply = client.post("/search", json=body).json()
        best = {(hit["corpus"], hit["document_id"]) for hit in reply["hits"][:2]}
        assert best == {("code", FUNCTIONS[1].id), ("more", FUNCTIONS[1].id)}
        assert [hit["rank"] for hit in reply["hits"]] == [1, 2, 3]
        scores = [hit["score"] for hit in reply["hits"]]
        assert scores == sorted(scores, reverse=True)
        assert [(each["corpus"], each["total"]) for each in reply["corpora"]] == [
            ("more", 2),
            ("code", 3),
        ]
        assert reply["corpora"][0]["build"] == current(home, "more").name
        assert reply["total"] == 5
        assert not {"corpus", "build", "encoder"} & reply.keys()

        of_kind = client.post("/search", json=body | {"corpus": {"kind": "code"}}).json()
        assert [each["corpus"] for each in of_kind["corpora"]] == ["code", "more"]
        one = client.post("/search", json=body | {"corpus": "code"}).json()
        assert one["corpus"] == "code"
        assert "corpus" not in one["hits"][0]
        assert "corpora" not in one


@pytest.mark.parametrize(
    ("corpus", "status", "message"),
    [
        (["code", "none"], 404, "There is no corpus 'none'"),
        ({"kind": "product"}, 404, "no corpus of kind product"),
        ({"kind": "music"}, 422, "must be a name of at most 64 characters, a list of names"),
        ({"kind": "code", "name": "x"}, 422, "must be a name"),
        ([], 422, "must be a name"),
        (["code"] * 17, 422, "a list of at most 16 names"),
        ([["code"]], 422, "must be a name"),
        (7, 422, "must be a name"),
    ],
)
def test_wrong_choice_of_corpora_is_explained(
    home: Path, corpus: object, status: int, message: str
) -> None:
    with serving(home) as client:
        # Until all are open, a corpus of the kind may still come.
        until(lambda: client.get("/readyz").status_code == 200)
        response = client.post("/search", json={"query": "sort", "corpus": corpus})
        assert message in problem(response, status)["detail"]
