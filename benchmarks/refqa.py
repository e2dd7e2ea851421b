"""Run the paper's ablation on reference QA: splitters x training data, retriever and reader.

    python benchmarks/refqa.py --data DIR --out DIR [--trained untrained questions ...]
        [--splitters ...] [--seeds 1 2 3] [--reader released|trained|none] [--pages N]

`--data` has references/python3.11/library, as in the paper Python's library reference alone, whose
passages are cut as the paper's splitters do (`purlin.training.data.splitting`): simple in windows of whole
pages, structure at definitions, extended with the terms above them, too. A retriever, and with
`--reader trained` a reader, is trained for each splitter, on that splitter's passages, with:

- "template": the paper's template (`paper_templates.toml`);
- "back": its questions and passages translated there and back, by `--translators THERE BACK`;
- "template+back": both;
- "questions": the questions of questions/training, which are about other entries than the measured.

Measured are the questions of the dev halves of `--questions` whose page is in the collection; with
`--pages`, that is a random choice of the pages that have any. A passage is right if an accepted
answer is in it within the right entry ("entry"), or anywhere ("answer", the paper's). Results of
earlier calls are kept, and unfinished training is resumed.

The report has means over questions and seeds with 95 % intervals, paired differences to the simple
splitter with the same training, the two-way analysis of variance and Tukey's HSD.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from purlin.index.encoder import Encoder
from purlin.index.evaluation.answers import Question, judge, read_questions
from purlin.index.evaluation.ranking import difference, measure
from purlin.index.passages import render
from purlin.index.qa.question import parse_question
from purlin.index.qa.reader import RELEASED_READER, Reader, reading_passage
from purlin.index.qa.spans import rank_answers
from purlin.index.records import Document, Passage, Splitter
from purlin.training import export, model, reader, santa
from purlin.training.anova import tukey_hsd, two_way_anova
from purlin.training.data.pair_formats import read_pairs
from purlin.training.data.pairs import Pair, PairSource
from purlin.training.data.questions import QuestionSource, answer_spans
from purlin.training.data.splitting import SplitReference, read_split
from purlin.training.data.templates import PAPER_RULES, document_entry
from purlin.training.loop import LoopSettings, StepProgress

REPOSITORY = Path(__file__).resolve().parents[1]
QUESTIONS = tuple(REPOSITORY / f"questions/{name}.jsonl" for name in ("python", "python-tuning"))
TRAINING_QUESTIONS = REPOSITORY / "questions/training/python.jsonl"
SPLITTERS: tuple[Splitter, ...] = ("simple", "structure", "extended")
TRAINING_DATA = ("untrained", "template", "back", "template+back", "questions")
DEPTH = 100  # passages that a retriever returns

Cell = tuple[Splitter, str]
QuestionValues = dict[str, list[float]]
"""A value for each question, by `ranking, relevance measure`."""


def log_progress(stage: str) -> StepProgress:
    def step(number: int, total: int, values: Any) -> None:
        if number % 10 == 0 or number == total:
            log_line(f"{stage} {number}/{total} loss {values['loss']:.3f}")

    return step


def log_line(message: str) -> None:
    print(f"  {message}", file=sys.stderr, flush=True)


class Ablation:
    """The command's options, and the collections, models and questions that cells share."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.out = options, options.out
        self.root = options.data / "references/python3.11"
        self.out.mkdir(parents=True, exist_ok=True)

    @cache  # noqa: B019
    def reference(self, splitter: Splitter) -> SplitReference:
        """The whole reference, cut by a splitter."""
        return read_split(self.root, splitter)

    @cache  # noqa: B019
    def questions(self) -> list[Question]:
        """The answerable questions about the measured pages, in the order of their files."""
        every = [
            question
            for path in self.options.questions
            for question in read_questions(path, "dev")
            if question.answers and question.entry and question.entry.startswith("library/")
        ]
        pages = sorted({page_of(question) for question in every})
        random.Random(0).shuffle(pages)
        chosen = set(pages[: self.options.pages])
        return [question for question in every if page_of(question) in chosen]

    def rows(self, splitter: Splitter) -> list[int]:
        """The passages of the measured pages."""
        pages = {page_of(question) for question in self.questions()}
        return [
            row
            for row, (document, _) in enumerate(self.reference(splitter).passages)
            if self.options.pages is None or document.location.path in pages
        ]

    @cache  # noqa: B019
    def relevant(self, splitter: Splitter) -> list[set[int]]:
        """The passages that have an accepted answer within the right entry, by question."""
        reference = self.reference(splitter)
        by_entry: dict[str, list[Document]] = {}
        for document in reference.definitions:
            by_entry.setdefault(document_entry(document), []).append(document)

        return [
            {
                row
                for document in by_entry.get(question.entry or "", ())
                for answer in question.answers
                for start, end in answer_spans(answer, document.body)
                for row, _ in reference.locate(document.id, start, end)
            }
            for question in self.questions()
        ]

    @cache  # noqa: B019
    def pairs(self, splitter: Splitter, kind: str) -> Path:
        """A file of the pairs of one splitter and kind, written unless an earlier call did."""
        path = self.out / f"pairs-{splitter}-{kind}.jsonl"
        if not path.is_file():
            lines = [
                json.dumps({"query": query, "passage": pair.passage})
                for pair in read_pairs(self.source(splitter, kind))
                if isinstance(pair, Pair)
                for query in pair.queries
            ]
            path.write_text("\n".join(lines), encoding="utf-8")
            log_line(f"{path.name}: {len(lines):,} pairs")
        return path

    def source(self, splitter: Splitter, kind: str) -> PairSource:
        """The source of the pairs of one splitter and kind."""
        if kind == "questions":
            return PairSource(
                "questions",
                TRAINING_QUESTIONS,
                kind="reference",
                reference=self.root,
                splitter=splitter,
            )
        return PairSource(
            "templates",
            self.root,
            kind="reference",
            rules=PAPER_RULES,
            leave_out=tuple(self.options.questions),
            splitter=splitter,
            **self.translation(kind),
        )

    def translation(self, kind: str) -> dict[str, Any]:
        """The keys of a source that say what is translated."""
        if kind == "template":
            return {}
        return {
            "translators": tuple(self.options.translators),
            "translate": "pairs",
            "originals": kind == "template+back",
        }

    def encoder(self, splitter: Splitter, kind: str, seed: int) -> Encoder:
        """The retriever of a cell, trained unless an earlier call did."""
        if kind == "untrained":
            directory = self.out / "base"
            if not directory.is_dir():
                base = Path(self.options.base)
                export.export(base, directory, export.Card("base"))
            return Encoder.load(directory)

        directory = self.out / "retrievers" / f"{splitter}-{kind}-{seed}"
        if not (directory / "retriever").is_dir():
            self._train_retriever(splitter, kind, seed, directory)
        return Encoder.load(directory / "retriever")

    def _train_retriever(self, splitter: Splitter, kind: str, seed: int, directory: Path) -> None:
        log_line(f"retriever: {splitter}, {kind}, seed {seed}")
        options = self.options
        loop = LoopSettings(
            batch_size=options.batch_size,
            steps=options.steps,
            learning_rate=options.learning_rate,
            every=options.every,
        )
        recipe = santa.SantaRecipe(
            name="retriever",
            pairs=(PairSource("pairs", self.pairs(splitter, kind), kind="reference"),),
            stage=(santa.Stage(name="fine-tune", temperature=0.05, loop=loop),),
            model=self.model_settings(),
            seed=seed,
        )
        santa.train_santa(recipe, directory, progress=log_progress, say=log_line, cpu=options.cpu)

    def model_settings(self) -> model.ModelSettings:
        """The base model of retrievers and readers."""
        lengths = {"max_query_tokens": 48, "max_passage_tokens": self.options.passage_tokens}
        return model.ModelSettings(base=str(self.options.base), dropout=0.0, **lengths)

    def reader(self, splitter: Splitter, kind: str, seed: int) -> Reader | None:
        """The released reader, or the cell's own, trained unless an earlier call did."""
        if self.options.reader == "none":
            return None
        if self.options.reader == "released" or kind == "untrained":
            return released_reader()

        directory = self.out / "readers" / f"{splitter}-{kind}-{seed}"
        if not (directory / "reader-int8").is_dir():
            self._train_reader(splitter, kind, seed, directory)
        return Reader.load(directory / "reader-int8")

    def _train_reader(self, splitter: Splitter, kind: str, seed: int, directory: Path) -> None:
        log_line(f"reader: {splitter}, {kind}, seed {seed}")
        source = QuestionSource(
            format="questions" if kind == "questions" else "templates",
            path=TRAINING_QUESTIONS if kind == "questions" else self.root,
            reference=self.root if kind == "questions" else None,
            rules=None if kind == "questions" else PAPER_RULES,
            leave_out=() if kind == "questions" else tuple(self.options.questions),
            splitter=splitter,
        )
        options = self.options
        recipe = reader.ReaderRecipe(
            name="reader-int8",
            asked=(source,),
            model=model.ModelSettings(base=str(options.base), dropout=0.0),
            reading=reader.ReadingSettings(passages=3, max_tokens=192),
            loop=LoopSettings(
                batch_size=max(1, options.batch_size // 2),
                steps=options.steps,
                learning_rate=1e-4,
                fresh_rate=5.0,
                every=options.every,
            ),
            seed=seed,
        )
        reader.train_reader(recipe, directory, progress=log_progress, say=log_line, cpu=options.cpu)

    def cell(self, splitter: Splitter, kind: str) -> QuestionValues:
        """The values of a splitter with one kind of training data, as means over the seeds."""
        seeds = [0] if kind == "untrained" else self.options.seeds
        per_seed = [self._seed_values(splitter, kind, seed) for seed in seeds]
        return {
            name: np.mean([values[name] for values in per_seed], axis=0).tolist()
            for name in per_seed[0]
        }

    def _seed_values(self, splitter: Splitter, kind: str, seed: int) -> QuestionValues:
        path = self.out / f"{splitter}-{kind}-{seed}-{self.options.reader}.json"
        if not path.is_file():
            log_line(f"measuring {splitter}, {kind}, seed {seed}")
            path.write_text(json.dumps(self._measure(splitter, kind, seed)))

        values: QuestionValues = json.loads(path.read_text())
        return values

    def _measure(self, splitter: Splitter, kind: str, seed: int) -> QuestionValues:
        encoder = self.encoder(splitter, kind, seed)
        cell_reader = self.reader(splitter, kind, seed)
        rows = np.array(self.rows(splitter))
        passages = self.reference(splitter).passages

        texts = [render(*passages[row]) for row in rows]
        passage_vectors = encoder.encode(texts, role="passage")
        queries = [question.question for question in self.questions()]
        scores = encoder.encode(queries, role="query") @ passage_vectors.T
        best = rows[np.argsort(-scores, axis=1, kind="stable")[:, :DEPTH]]

        values: QuestionValues = {}
        relevant_rows = self.relevant(splitter)
        for question, ranking, relevant in zip(
            self.questions(), best.tolist(), relevant_rows, strict=True
        ):
            rankings = {"search": ranking}
            if cell_reader is not None:
                head = ranking[: self.options.read]
                order = reread(cell_reader, question, [passages[row] for row in head])
                rankings["reader"] = [head[row] for row in order] + ranking[len(head) :]

            for name, rows_by_rank in rankings.items():
                texts = [passage_text(*passages[row]) for row in rows_by_rank]
                judged = judge(question, [(None, text) for text in texts], (), 0.0)
                hits = (rank for rank, row in enumerate(rows_by_rank, 1) if row in relevant)
                ranks = {"entry": next(hits, None), "answer": judged.answer_rank}
                for relevance, rank in ranks.items():
                    for measure_name, value in rank_values(rank).items():
                        values.setdefault(f"{name}, {relevance} {measure_name}", []).append(value)
        return values


@cache
def released_reader() -> Reader:
    return Reader.load(RELEASED_READER)


def page_of(question: Question) -> str:
    return (question.entry or "").partition("#")[0]


def passage_text(document: Document, passage: Passage) -> str:
    return document.body[passage.start : passage.end]


def rank_values(rank: int | None) -> dict[str, float]:
    """The paper's measures of one question: accuracy@100 and the reciprocal rank."""
    return {"MRR@100": 1 / rank if rank else 0.0, "accuracy@100": float(rank is not None)}


def reread(
    cell_reader: Reader, question: Question, passages: Sequence[tuple[Document, Passage]]
) -> list[int]:
    """Order passages by the reader's relevance, best first."""
    reading_passages = [reading_passage(document, passage) for document, passage in passages]
    reading = rank_answers(
        parse_question(question.question),
        reading_passages,
        cell_reader.read(question.question, reading_passages),
        prior_weight=cell_reader.settings.prior_weight,
        k=1,
    )
    order: list[int] = np.argsort(-reading.relevance, kind="stable").tolist()
    return order


def report(cells: dict[Cell, QuestionValues]) -> Iterator[str]:
    """Yield the lines of the report: a table and the tests of each measure."""
    names = list(next(iter(cells.values())))
    yield f"| splitter | trained on | {' | '.join(names)} |"
    yield "|---" * (len(names) + 2) + "|"
    for (splitter, kind), values in cells.items():
        columns = [interval(name, values) for name in names]
        yield f"| {splitter} | {kind} | {' | '.join(columns)} |"

    yield "\nDifferences to the simple splitter with the same training, paired by question:\n"
    for (splitter, kind), values in cells.items():
        baseline = cells.get(("simple", kind))
        if baseline is None or baseline is values:
            continue
        for name in names:
            change = difference(name, np.array(baseline[name]), np.array(values[name]))
            span = f"{change.low:+.3f} to {change.high:+.3f}"
            yield f"- {splitter}, {kind}: {name} {change.mean:+.3f} ({span}, p {change.p:.4f})"

    if len(cells) > 1:
        for name in names:
            yield from tests_of(name, cells)


def interval(name: str, values: QuestionValues) -> str:
    mean = measure(name, np.array(values[name]), len(values[name]))
    return f"{mean.mean:.3f} ({mean.low:.3f} to {mean.high:.3f})"


def tests_of(name: str, cells: dict[Cell, QuestionValues]) -> Iterator[str]:
    """Yield the analysis of variance of a measure over all cells, and the pairs that differ."""
    table = np.array([values[name] for values in cells.values()]).T
    anova = two_way_anova(table)
    freedom = f"F({anova.systems_freedom}, {anova.error_freedom})"
    yield f"\n{name}: {freedom} = {anova.f:.2f}, p {anova.p:.4f}; Tukey's HSD, p < 0.05:\n"

    labels = [f"{splitter}, {kind}" for splitter, kind in cells]
    pairs = [pair for pair in tukey_hsd(table) if pair.p < 0.05]
    for pair in pairs:
        span = f"{pair.low:+.3f} to {pair.high:+.3f}"
        yield f"- {labels[pair.b]} vs {labels[pair.a]}: {pair.mean:+.3f} ({span}, p {pair.p:.4f})"
    if not pairs:
        yield "- none"


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--questions", type=Path, nargs="+", default=QUESTIONS)
    parser.add_argument("--splitters", nargs="+", choices=SPLITTERS, default=SPLITTERS)
    parser.add_argument("--trained", nargs="+", choices=TRAINING_DATA, default=["untrained"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--reader", choices=("released", "trained", "none"), default="released")
    parser.add_argument("--read", type=int, default=10, help="passages that the reader ranks")
    parser.add_argument("--pages", type=int)
    parser.add_argument("--base", default=None, help="checkpoint; by default MiniLM")
    parser.add_argument("--translators", nargs=2, default=(), metavar=("THERE", "BACK"))
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=3e-5)
    parser.add_argument("--passage-tokens", type=int, default=160)
    parser.add_argument("--every", type=int, default=1 << 20, help="steps between checkpoints")
    parser.add_argument("--cpu", action="store_true")

    options = parser.parse_args()
    options.base = options.base or export.base_checkpoint()
    if any("back" in kind for kind in options.trained) and not options.translators:
        parser.error("training data with back-translation needs --translators THERE BACK")
    return options


def main() -> None:
    options = parse_options()
    ablation = Ablation(options)
    cells = {
        (splitter, kind): ablation.cell(splitter, kind)
        for kind in options.trained
        for splitter in options.splitters
    }

    counts = {splitter: len(ablation.rows(splitter)) for splitter in options.splitters}
    sizes = ", ".join(f"{splitter} {count:,}" for splitter, count in counts.items())
    print(f"{len(ablation.questions())} questions; passages: {sizes}\n")
    print("\n".join(report(cells)))


if __name__ == "__main__":
    main()
