"""Run the paper's ablation on reference QA: splitters x training data x {search, reader}.

    python benchmarks/refqa.py --data DIR --questions questions/python.jsonl --out DIR
                               [--splitters ...] [--trained ...] [--split dev]

`--data` has references/python3.11 and so_pydocs/. Retrievers are trained from all-MiniLM-L6-v2 on
questions about the definitions of entries, all for as many steps, with one kind of training data:

- "template": the first wording of each form.
- "paraphrase": the other wordings, which stand in for back-translation, as there is no translator.
- "both".
- "both + real": also titles of Stack Overflow questions whose answers link to an entry.

A reader of each kind reranks the best passages with features of spans, without those of passages.
Two sets of questions are measured: those written by hand (a split of the file), and questions by
template about entries that training does not see. As in the paper, a passage is right if it has the
answer's words. Results of earlier calls are kept.

The table has differences of MRR to the same splitter untrained (u) and to the simple splitter with
the same training (s), paired by query, with the p of a sign-flip test.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from purlin.index import builds
from purlin.index.encoder import Encoder
from purlin.index.evaluation.answers import DEPTHS, Question, judge, read_questions
from purlin.index.evaluation.ranking import difference
from purlin.index.indexing.build import Options, build
from purlin.index.qa.judging import hit_entry
from purlin.index.qa.question import parse_question
from purlin.index.qa.reader import Reader, reading_passage
from purlin.index.qa.spans import rank_answers
from purlin.index.records import Document, Skipped, Splitter
from purlin.index.search.corpus import Corpus
from purlin.index.sources import open_source
from purlin.training import export, model, reader, santa
from purlin.training.data import templates
from purlin.training.data.pairs import PairSource
from purlin.training.data.questions import QuestionSource
from purlin.training.loop import LoopSettings, StepProgress

SPLITTERS: tuple[Splitter, ...] = ("simple", "structure", "extended")
TRAINING_DATA = ("untrained", "template", "paraphrase", "both", "both + real")
RERANKED = 20  # passages that a reader ranks
TEMPLATE_QUESTIONS = 200  # questions by template that are measured
RETRIEVER = LoopSettings(batch_size=64, steps=120, learning_rate=3e-5, every=1 << 20)
READER = LoopSettings(batch_size=16, steps=120, learning_rate=1e-4, fresh_rate=5.0, every=1 << 20)
SETTINGS = model.ModelSettings(dropout=0.0)

QuestionValues = dict[str, list[float]]
"""A value for each question, by `set, ranking: measure`."""


def write_wordings(kind: str, out: Path) -> Path:
    """Write a file of templates with the wordings of one kind of training data."""
    rules = tomllib.loads(templates.TEMPLATE_RULES.read_text(encoding="utf-8"))
    for form in rules["forms"]:
        first, others = form["texts"][:1], form["texts"][1:]
        # A form with a single wording has no paraphrase, and keeps that wording.
        wordings = {"template": first, "paraphrase": others or first}
        form["texts"] = wordings.get(kind, form["texts"])

    path = out / f"{kind}.toml"
    path.write_text("\n".join(_toml_lines(rules)), encoding="utf-8")
    return path


def _toml_lines(content: dict[str, Any]) -> Iterator[str]:
    """Plain values first, then arrays of tables; JSON's strings, numbers and arrays are TOML's."""
    tables = {
        key: value
        for key, value in content.items()
        if isinstance(value, list) and isinstance(value[0], dict)
    }
    for key, value in content.items():
        if key not in tables:
            yield f"{key} = {json.dumps(value)}"

    for key, rows in tables.items():
        for row in rows:
            yield f"[[{key}]]"
            for name, value in row.items():
                yield f"{name} = {json.dumps(value)}"


def log_progress(stage: str) -> StepProgress:
    def step(number: int, total: int, values: Any) -> None:
        if number % 20 == 0 or number == total:
            log_line(f"{stage} {number}/{total} loss {values['loss']:.3f}")

    return step


def log_line(message: str) -> None:
    print(f"  {message}", file=sys.stderr, flush=True)


class Ablation:
    """The command's options, and the models, questions and corpora that cells share."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.out = options, options.out
        self.reference = options.data / "references/python3.11"
        self.real = options.data / "so_pydocs/train.jsonl.gz"
        self.out.mkdir(parents=True, exist_ok=True)

    def rules(self, kind: str) -> Path:
        """The file of templates of one kind of training data."""
        return write_wordings(kind.partition(" ")[0], self.out)

    @cache  # noqa: B019
    def encoder(self, kind: str) -> Encoder:
        """The retriever of one kind, trained unless an earlier call did."""
        directory = self.out / "retrievers" / kind.replace(" ", "")
        if kind == "untrained":
            if not (directory / "base").is_dir():
                export.export(export.base_checkpoint(), directory / "base", export.Card("base"))
            return Encoder.load(directory / "base")

        if not (directory / "retriever").is_dir():
            self._train_retriever(kind, directory)
        return Encoder.load(directory / "retriever")

    def _train_retriever(self, kind: str, directory: Path) -> None:
        pairs = [PairSource("templates", self.reference, kind="reference", rules=self.rules(kind))]
        if "real" in kind:
            pairs.append(
                PairSource(
                    "linked", self.real, kind="reference", reference=self.reference, limit=4000
                )
            )

        stage = santa.Stage(name="fine-tune", temperature=0.05, loop=RETRIEVER)
        recipe = santa.SantaRecipe(
            name="retriever", pairs=tuple(pairs), stage=(stage,), model=SETTINGS
        )
        santa.train_santa(recipe, directory, progress=log_progress, say=log_line)

    @cache  # noqa: B019
    def reader(self, kind: str) -> Reader:
        """The reader of one kind, trained unless an earlier call did."""
        directory = self.out / "readers" / kind.replace(" ", "")
        if not (directory / "reader-int8").is_dir():
            self._train_reader(kind, directory)
        return Reader.load(directory / "reader-int8")

    def _train_reader(self, kind: str, directory: Path) -> None:
        sources = [QuestionSource(format="templates", path=self.reference, rules=self.rules(kind))]
        if "real" in kind:
            sources.append(
                QuestionSource(
                    format="linked", path=self.real, reference=self.reference, limit=4000
                )
            )

        recipe = reader.ReaderRecipe(
            name="reader-int8",
            asked=tuple(sources),
            model=SETTINGS,
            reading=reader.ReadingSettings(passages=3, max_tokens=192),
            loop=READER,
        )
        reader.train_reader(recipe, directory, progress=log_progress, say=log_line)

    @cache  # noqa: B019
    def questions(self) -> dict[str, list[Question]]:
        """The two sets: written by hand, and by template about entries of the test split."""
        written = [
            question
            for question in read_questions(self.options.questions, self.options.split)
            if question.answers
        ]

        generated = templates.questions(
            self.documents(), "test", write_wordings("template", self.out)
        )
        sample = random.Random(1).sample(generated, min(TEMPLATE_QUESTIONS, len(generated)))
        by_template = [
            Question(str(number), item.question, (item.answer,), None, item.form, "test")
            for number, item in enumerate(sample)
        ]
        return {"written": written, "template": by_template}

    def documents(self) -> Iterator[Document]:
        for file in open_source("reference", [self.reference]):
            if isinstance(file, Skipped):
                continue
            for item in file.read():
                if isinstance(item, Document):
                    yield item

    def corpus(self, splitter: Splitter, kind: str) -> Corpus:
        """The reference in the splitter's passages, ranked by the retriever's vectors alone."""
        home, encoder = self.out / "home", self.encoder(kind)
        name = f"{splitter}-{kind.replace(' + ', '-')}"
        if not (home / "corpora" / name).is_dir():
            sources = open_source("reference", [self.reference])
            options = Options(splitter, dense_weight=1.0)
            build(home, name, "reference", sources, encoder, options=options)
        return Corpus.load(builds.current(home, name), encoder)

    def cell(self, splitter: Splitter, kind: str) -> QuestionValues:
        """Measure a splitter with one kind of training data, or read an earlier call's result."""
        path = self.out / f"{splitter}-{kind.replace(' ', '')}.json"
        if not path.is_file():
            print(f"{splitter}, {kind}", file=sys.stderr, flush=True)
            path.write_text(json.dumps(self._measure(splitter, kind)))

        values: QuestionValues = json.loads(path.read_text())
        return values

    def _measure(self, splitter: Splitter, kind: str) -> QuestionValues:
        corpus = self.corpus(splitter, kind)
        cell_reader = None if kind == "untrained" else self.reader(kind)

        values: QuestionValues = {}
        for name, questions in self.questions().items():
            for question in questions:
                for ranking, rank in answer_ranks(corpus, cell_reader, question).items():
                    mrr = values.setdefault(f"{name}, {ranking}: MRR", [])
                    mrr.append(1 / rank if rank else 0.0)
                    for k in DEPTHS:
                        hits = values.setdefault(f"{name}, {ranking}: @{k}", [])
                        hits.append(float(bool(rank) and rank <= k))
        corpus.close()
        return values


def answer_ranks(
    corpus: Corpus, cell_reader: Reader | None, question: Question
) -> dict[str, int | None]:
    """Rank of the first passage with the answer's words, in search and after the reader."""
    retrieved = corpus.passages(question.question, max(DEPTHS)).passages
    passages = [(hit_entry(each.hit), each.hit.text) for each in retrieved]
    result = {"search": judge(question, passages, (), 0.0).answer_rank}
    if cell_reader is None:
        return result

    read_passages = [reading_passage(each.document, each.passage) for each in retrieved[:RERANKED]]
    reading = rank_answers(
        parse_question(question.question),
        read_passages,
        cell_reader.read(question.question, read_passages),
        prior_weight=cell_reader.settings.prior_weight,
        word_weights=corpus.weights(question.question),
        k=1,
    )

    # Passages that the reader did not read keep their order, after those that it did.
    order = np.argsort(-reading.relevance, kind="stable").tolist()
    order += range(RERANKED, len(passages))
    reranked = [passages[row] for row in order]
    result["reader"] = judge(question, reranked, (), 0.0).answer_rank
    return result


def row_cells(
    names: Sequence[str],
    values: QuestionValues,
    baselines: Sequence[tuple[str, QuestionValues]],
) -> str:
    """The cells of a row: means, and the differences of MRR to each baseline, with its letter."""
    cells = []
    for name in names:
        cell = f"{np.mean(values[name]):.3f}" if name in values else ""
        for letter, baseline in baselines:
            if cell and name.endswith("MRR") and name in baseline:
                change = difference(name, np.array(baseline[name]), np.array(values[name]))
                cell += f" ({letter} {change.mean:+.3f}, p {change.p:.4f})"
        cells.append(cell)
    return " | ".join(cells)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--questions", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--split", default="dev")
    parser.add_argument("--splitters", nargs="+", choices=SPLITTERS, default=SPLITTERS)
    parser.add_argument("--trained", nargs="+", choices=TRAINING_DATA, default=TRAINING_DATA)
    options = parser.parse_args()

    ablation = Ablation(options)
    cells = {
        (splitter, kind): ablation.cell(splitter, kind)
        for kind in options.trained
        for splitter in options.splitters
    }

    # The last kind has a reader, and with it the columns of all.
    names = list(next(reversed(cells.values())))
    print(f"| splitter | trained on | {' | '.join(names)} |\n{'|---' * (len(names) + 2)}|")
    for (splitter, kind), values in cells.items():
        candidates = (
            ("u", cells.get((splitter, "untrained"))),
            ("s", cells.get(("simple", kind))),
        )
        baselines = [
            (letter, baseline)
            for letter, baseline in candidates
            if baseline is not None and baseline is not values
        ]
        print(f"| {splitter} | {kind} | {row_cells(names, values, baselines)} |")


if __name__ == "__main__":
    main()
