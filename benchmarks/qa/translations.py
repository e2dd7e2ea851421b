"""Measure questions in other languages, with the answers of the English originals.

    python -m benchmarks.qa.translations --corpus python [--split dev] [--language de fr] [--home var]

`en` are the originals. Prints exact match, MRR@100 of the passages and the AUROC of `answerable`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.options import command_parser
from purlin.index import builds
from purlin.index.encoder import TRANSFORMER_ENCODER, load_encoder
from purlin.index.evaluation.answers import Question, answer_measures, read_questions
from purlin.index.qa.judging import judge_corpus
from purlin.index.qa.reader import RELEASED_READER, Reader
from purlin.index.search.corpus import Corpus

QUESTIONS = Path("questions")
SHOWN = ("exact match", "answer MRR@100", "AUROC")


def translations(split: str, language: str) -> Iterator[Question]:
    """Yield the questions of a split in a language; those in `en` are the originals."""
    originals = {
        question.id: question
        for path in sorted(QUESTIONS.glob("python*.jsonl"))
        for question in read_questions(path)
    }
    lines = (QUESTIONS / "translations/questions.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if row["split"] == split]

    if language == "en":
        yield from (originals[id] for id in dict.fromkeys(row["id"] for row in rows))
    for row in rows:
        if row["language"] == language:
            yield replace(originals[row["id"]], question=row["question"])


def main() -> None:
    """Print the measures of each language."""
    parser = command_parser(__doc__)
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--home", type=Path, default=Path("var"))
    parser.add_argument("--split", choices=["dev", "test"], default="dev")
    parser.add_argument("--language", nargs="+", default=["en", "de", "ja"])
    options = parser.parse_args()

    reader = Reader.load(RELEASED_READER)
    encoder = load_encoder(TRANSFORMER_ENCODER)
    corpus = Corpus.load(builds.current(options.home, options.corpus), encoder)
    for language in options.language:
        questions = list(translations(options.split, language))
        measures = answer_measures(judge_corpus(corpus, reader, questions))
        shown = (f"{each.name} {each.mean:.3f}" for each in measures if each.name in SHOWN)
        print(f"{language}: {', '.join(shown)}; {len(questions)} questions")


if __name__ == "__main__":
    main()
