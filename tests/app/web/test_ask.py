"""Answers to questions, marked in their passages."""

from __future__ import annotations

from pathlib import Path

import httpx

from tests.support.browser import Tab
from tests.support.pages import hold, served, shown
from tests.support.serving import PATIENTLY


def test_answers_are_marked_in_their_passages(home: Path, tab: Tab, reader_directory: Path) -> None:
    question = "What is the default step of range?"
    with served(home, reader=reader_directory) as address:
        reply = httpx.post(
            f"{address}qa", json={"question": question, "corpus": "library"}, **PATIENTLY
        ).json()
        shown(tab, f"{address}#ask?corpus=library&question={question}")
        assert [text.strip() for text in tab.texts(".answer h3")] == [
            answer["text"].strip() for answer in reply["answers"]
        ]
        for number, answer in enumerate(reply["answers"]):
            marked = f"[...document.querySelectorAll('.answer')][{number}].querySelectorAll('mark')"
            assert (
                tab.run(f"[...{marked}].map(one => one.textContent).join('')").split()
                == answer["text"].split()
            )
        assert (
            [text.split() for text in tab.texts(".answer .says")]
            == [
                answer["sentence"]["text"].split()
                for answer in reply["answers"]
                if answer.get("sentence") and answer["sentence"]["text"] != answer["text"]
            ]
            != []
        )
        # Only the best answer's passage is unfolded; the others have their sentence.
        folded = "[...document.querySelectorAll('.answer')].map(one => !!one.querySelector('details:not([open]) mark'))"
        sentences = [bool(answer.get("sentence")) for answer in reply["answers"]]
        assert tab.run(folded) == [False, *sentences[1:]]

        links = tab.run("[...document.querySelectorAll('.answer a')].map(one => one.href)")
        assert links == [answer["url"] for answer in reply["answers"] if answer.get("url")] != []
        assert tab.texts(".answer a") == [
            f"Read it at {link.removeprefix('https://')}" for link in links
        ]
        assert f"{round(reply['answerable'] * 100)} %" in tab.texts(".verdict")[0]
        likelihood, best = tab.texts(".verdict h2")[0], tab.texts(".answer h3")[0]
        assert tab.texts("#said")[0].split() == f"{likelihood}: {best}".split()


def test_ask_falls_back_to_search_without_a_reader(site: str, tab: Tab) -> None:
    shown(tab, f"{site}#ask?corpus=library&question=close+the+file")
    assert "This server has no reader" in tab.texts(".no-reader")[0]
    assert tab.texts(".no-reader code") == ["purlin train refqa"]
    assert tab.texts(".hit h3")[0] == "close(file)"
    link = tab.run(
        "document.querySelector('.hit h3 a').href + ' ' + document.querySelector('.hit h3 a').rel"
    )
    assert link == "https://example.org/functions.html#close noopener noreferrer"


def test_empty_view_sends_no_request(site: str, tab: Tab) -> None:
    shown(tab, f"{site}#ask?corpus=library&question=close")
    hold(tab, "qa")
    tab.go("#ask?corpus=library&question=range")
    tab.until("held.length")
    tab.go("#ask")
    tab.until("!document.querySelector('.view.ask .no-reader')")
    assert tab.run("document.querySelector('[aria-busy]') === null")
