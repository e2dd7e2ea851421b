"""Run the paper's ablation on reference QA: splitters x training data, retriever and reader.

    python -m benchmarks.qa.refqa --data DIR --out DIR [--trained untrained questions ...]
        [--splitters ...] [--validated ...] [--seeds 1 2 3] [--reader released|trained|none|DIR]
        [--recipe configs/refqa-dpr.toml] [--pages N] [--template-test]

`--data` has references/python3.11/library, as in the paper Python's library reference alone, whose
passages are cut as the paper's splitters do (`purlin.training.data.questions.splitting`): simple in windows of whole
pages, structure at definitions, extended with the terms above them, too. A retriever, and with
`--reader trained` a reader, is trained for each splitter, on that splitter's passages, with:

- "template": the paper's template (`paper_templates.toml`);
- "back": its questions and passages translated there and back, by `--translators THERE BACK`;
- "template+back": both;
- "questions": the questions of questions/training, which are about other entries than the measured.

"untrained" is the model as it is, and "bm25" has no model.

`--validated` keeps the epoch with the least loss on such data about other entries, as the paper
does; without it the last step counts. The model and the loop are those of `--recipe`, or else
MiniLM's for a few steps.

Measured are the questions of the dev halves of `--questions` whose page is in the collection; with
`--pages`, that is a random choice of the pages that have any. A passage is right if an accepted
answer is in it within the right entry ("entry"), or anywhere ("answer", the paper's). Results of
earlier calls are kept, and unfinished training is resumed.

With `--template-test` the same systems are measured, in a second report, on the questions by the
paper's template about the entries of its split "test", as in its table 6 and the column D_temp of
its table 4. Systems trained on "questions", which may be about these entries, are not; nor may the
released reader, which learnt from such questions, take part.

The report has means over questions and seeds with 95 % intervals, paired differences to the simple
splitter with the same training, the two-way analysis of variance and Tukey's HSD.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.options import command_parser
from benchmarks.progress import kept, log_line, log_progress, write_whole
from benchmarks.qa.refqa_report import Kind, QuestionValues, report
from purlin.index.encoder.transformer import Encoder
from purlin.index.evaluation.answers import Question, judge, read_questions
from purlin.index.qa.reader import RELEASED_READER, Reader, reading_passage
from purlin.index.records import Document, Passage, Splitter
from purlin.index.texts.passages import render
from purlin.training.config import load_recipe
from purlin.training.data.pairs.formats import read_pairs
from purlin.training.data.pairs.pair import Pair, PairSource
from purlin.training.data.questions.reader_questions import answer_spans
from purlin.training.data.questions.sources import QuestionSource
from purlin.training.data.questions.splitting import SplitReference, read_split
from purlin.training.data.questions.wrong_passages import lexical_index
from purlin.training.data.templates import generation
from purlin.training.data.templates.generation import document_entry
from purlin.training.dev import DevSet
from purlin.training.exporting.encoder import export_encoder
from purlin.training.exporting.model_card import Card
from purlin.training.loop.settings import LoopSettings
from purlin.training.models.sentence_models import base_checkpoint
from purlin.training.models.settings import ModelSettings
from purlin.training.models.text_model import load_text_model
from purlin.training.reader.recipe import ReaderRecipe, ReadingSettings
from purlin.training.reader.run import train_reader
from purlin.training.santa.recipe import SantaExport, SantaRecipe, Stage
from purlin.training.santa.run import train_santa

REPOSITORY = Path(__file__).resolve().parents[2]
QUESTIONS = tuple(REPOSITORY / f"questions/{name}.jsonl" for name in ("python", "python-tuning"))
TRAINING_QUESTIONS = REPOSITORY / "questions/training/python.jsonl"
SPLITTERS: tuple[Splitter, ...] = ("simple", "structure", "extended")
BY_TEMPLATE = ("template", "back", "template+back")
TRAINING_DATA = ("bm25", "untrained", *BY_TEMPLATE, "questions")
DEPTH = 100  # passages that a retriever returns
SMALL_MODEL = ModelSettings(
    base=str(base_checkpoint()), dropout=0.0, max_query_tokens=48, max_passage_tokens=160
)
SMALL_STAGE = Stage(
    name="fine-tune",
    temperature=0.05,
    loop=LoopSettings(batch_size=32, steps=40, learning_rate=3e-5, every=1 << 20),
)

UNTRAINED: Kind = ("untrained", "none")
BM25: Kind = ("bm25", "none")


@cache
def read_reference(root: Path, splitter: Splitter) -> SplitReference:
    """The whole reference, cut by a splitter."""
    return read_split(root, splitter)


class Ablation:
    """The command's options, and the collections, models and questions that cells share."""

    measured = "questions"
    """What the report calls the questions."""

    result_suffix = ""
    """Of the names of files with results, which differ by what is measured."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.out = options, options.out
        self.root = options.data / "references/python3.11"
        self.out.mkdir(parents=True, exist_ok=True)

    def reference(self, splitter: Splitter) -> SplitReference:
        """The whole reference, cut by a splitter."""
        return read_reference(self.root, splitter)

    def all_questions(self) -> list[Question]:
        """The answerable questions about all pages, in the order of their files."""
        return [
            question
            for path in self.options.questions
            for question in read_questions(path, "dev")
            if question.answers and (self.root / page_of(question)).is_file()
        ]

    @cache  # noqa: B019
    def questions(self) -> list[Question]:
        """The questions about the measured pages."""
        every = self.all_questions()
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
            write_whole(path, "\n".join(lines))
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
            rules="paper",
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

    def encoder(self, splitter: Splitter, kind: Kind, seed: int) -> Encoder:
        """The retriever of a cell, trained unless an earlier call did."""
        directory = self.out / "retrievers" / cell_name(splitter, kind, seed)
        if kind == UNTRAINED:
            directory = self.out / "retrievers" / "untrained"

        if not (directory / "retriever").is_dir():
            log_line(f"retriever: {directory.name}")
            if kind == UNTRAINED:
                self._export_untrained(directory)
            else:
                self._train_retriever(directory, splitter, kind, seed)
        return Encoder.load(directory / "retriever")

    def _export_untrained(self, directory: Path) -> None:
        checkpoint = directory / "checkpoint"
        checkpoint.mkdir(parents=True, exist_ok=True)
        load_text_model(self.options.model).save(checkpoint)

        export_encoder(
            checkpoint,
            directory / "retriever",
            Card("retriever"),
            quantization=self.options.quantization,
        )

    def _train_retriever(self, directory: Path, splitter: Splitter, kind: Kind, seed: int) -> None:
        training_data, validated = kind
        recipe = SantaRecipe(
            name="retriever",
            pairs=(PairSource("pairs", self.pairs(splitter, training_data), kind="reference"),),
            stage=(replace(self.options.stage, loop=self.options.loop),),
            model=self.options.model,
            dev=self.dev_sets(splitter, validated),
            export=SantaExport(quantization=self.options.quantization),
            seed=seed,
        )

        train_santa(recipe, directory, progress=log_progress, say=log_line, cpu=self.options.cpu)

    def dev_sets(self, splitter: Splitter, kind: str) -> tuple[DevSet, ...]:
        """The data whose loss selects the epoch: questions about entries that are not trained on."""
        if kind == "none":
            return ()

        return (
            DevSet(
                name="validation",
                format="templates",
                path=self.root,
                kind="reference",
                measure="-loss",
                rules="paper",
                splitter=splitter,
                translators=() if kind == "template" else tuple(self.options.translators),
                originals=kind != "back",
            ),
        )

    def reader(self, splitter: Splitter, kind: Kind, seed: int) -> Reader | None:
        """The released reader, one in a directory, or the cell's own, which is trained if need be."""
        choice = self.options.reader
        if choice == "none":
            return None
        if choice != "trained" or kind in (UNTRAINED, BM25):
            is_named = choice not in ("released", "trained")
            return read_reader(Path(choice) if is_named else RELEASED_READER)

        training_data, _ = kind
        directory = self.out / "readers" / cell_name(splitter, (training_data, "none"), seed)
        if not (directory / "reader-int8").is_dir():
            log_line(f"reader: {directory.name}")
            self._train_reader(splitter, training_data, seed, directory)
        return read_reader(directory / "reader-int8")

    def _train_reader(self, splitter: Splitter, kind: str, seed: int, directory: Path) -> None:
        source = QuestionSource(
            format="templates",
            path=self.root,
            rules="paper",
            leave_out=tuple(self.options.questions),
            splitter=splitter,
        )
        if kind == "questions":
            source = QuestionSource(
                format="questions",
                path=TRAINING_QUESTIONS,
                reference=self.root,
                splitter=splitter,
            )

        options = self.options
        recipe = ReaderRecipe(
            name="reader-int8",
            questions=(source,),
            model=ModelSettings(base=options.model.base, dropout=0.0),
            reading=ReadingSettings(passages=3, max_tokens=192),
            loop=replace(options.loop, learning_rate=1e-4, fresh_rate=5.0),
            seed=seed,
        )

        train_reader(recipe, directory, progress=log_progress, say=log_line, cpu=options.cpu)

    def cell(self, splitter: Splitter, kind: Kind) -> QuestionValues:
        """The values of a splitter with one kind of training, as means over the seeds."""
        seeds = [0] if kind in (UNTRAINED, BM25) else self.options.seeds
        per_seed = [self._seed_values(splitter, kind, seed) for seed in seeds]
        return {
            name: np.mean([values[name] for values in per_seed], axis=0).tolist()
            for name in per_seed[0]
        }

    def _seed_values(self, splitter: Splitter, kind: Kind, seed: int) -> QuestionValues:
        name = cell_name(splitter, kind, seed)
        path = self.out / f"{name}-{Path(self.options.reader).name}{self.result_suffix}.json"
        values: QuestionValues = kept(path, lambda: self._measure(splitter, kind, seed))
        count = len(next(iter(values.values())))
        if count != len(self.questions()):
            raise SystemExit(
                f"{path} has results for {count} questions, not for these {len(self.questions())}: "
                "give another --out."
            )
        return values

    def _measure(self, splitter: Splitter, kind: Kind, seed: int) -> QuestionValues:
        cell_reader = self.reader(splitter, kind, seed)
        rows = np.array(self.rows(splitter))
        passages = self.reference(splitter).passages

        texts = [render(*passages[row]) for row in rows]
        queries = [question.question for question in self.questions()]
        if kind == BM25:
            scores = bm25_scores(queries, texts)
        else:
            encoder = self.encoder(splitter, kind, seed)
            passage_vectors = encoder.encode(texts, role="passage")
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


class TemplateTest(Ablation):
    """The same systems, measured on the paper's D_temp: the test split of its template."""

    measured = "questions by template"
    result_suffix = "-template-test"

    def all_questions(self) -> list[Question]:
        """The unambiguous questions by the paper's template about entries of its split "test"."""
        definitions = self.reference(self.options.splitters[0]).definitions
        examples = generation.questions(definitions, "test", "paper")
        return [
            Question(
                id=str(number),
                question=example.question,
                answers=(example.answer,),
                entry=example.entry,
                form=example.form,
                split="test",
            )
            for number, example in enumerate(examples)
        ]


def bm25_scores(queries: Sequence[str], texts: Sequence[str]) -> NDArray[np.float32]:
    """Return BM25's scores (queries, texts)."""
    lexical, every = lexical_index(texts), np.arange(len(texts))
    return np.stack([lexical.scores(lexical.weights(query), every) for query in queries])


@cache
def read_reader(directory: Path) -> Reader:
    return Reader.load(directory)


def cell_name(splitter: Splitter, kind: Kind, seed: int) -> str:
    training_data, validated = kind
    data = training_data if validated == "none" else f"{training_data}-by-{validated}"
    return f"{splitter}-{data}-{seed}"


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
    """Order passages by the reader's score of the passage, best first (equation 3)."""
    read_passages = [reading_passage(document, passage) for document, passage in passages]
    logits = cell_reader.read(question.question, read_passages)
    return sorted(range(len(logits)), key=lambda number: -logits[number].selected)


def parse_options() -> argparse.Namespace:
    parser = command_parser(__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--questions", type=Path, nargs="+", default=QUESTIONS)
    parser.add_argument("--splitters", nargs="+", choices=SPLITTERS, default=SPLITTERS)
    parser.add_argument("--trained", nargs="+", choices=TRAINING_DATA, default=["untrained"])
    parser.add_argument("--validated", nargs="+", choices=("none", *BY_TEMPLATE), default=["none"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--reader", default="released")
    parser.add_argument("--read", type=int, default=10, help="passages that the reader ranks")
    parser.add_argument("--pages", type=int)
    parser.add_argument(
        "--template-test", action="store_true", help="also measure the template's test split"
    )
    parser.add_argument("--recipe", type=Path)
    parser.add_argument("--translators", nargs=2, default=(), metavar=("THERE", "BACK"))
    parser.add_argument("--steps", type=int, help="instead of the recipe's epochs")
    parser.add_argument("--cpu", action="store_true")

    options = parser.parse_args()
    translated = {*options.trained, *options.validated} & {"back", "template+back"}
    if translated and not options.translators:
        parser.error(f"{translated.pop()} needs --translators THERE BACK")

    uses_released = options.reader == "released" or (
        options.reader == "trained" and {"bm25", "untrained"} & {*options.trained}
    )
    if options.template_test and uses_released:
        parser.error(
            "the released reader has learnt from questions about entries of the template's test split: "
            "with --template-test, give --reader none or the directory of another, or leave "
            "bm25 and untrained out"
        )

    read_recipe(options)
    return options


def read_recipe(options: argparse.Namespace) -> None:
    """Set the model, the stage, its loop and the quantization that all runs share."""
    options.model, options.stage, options.quantization = SMALL_MODEL, SMALL_STAGE, "int8"
    if options.recipe is not None:
        recipe = load_recipe(options.recipe, SantaRecipe, data=options.data)
        options.model, (options.stage,) = recipe.model, recipe.stage
        options.quantization = recipe.export.quantization

    options.loop = options.stage.loop
    if options.steps is not None:
        options.loop = replace(options.loop, steps=options.steps)


def main() -> None:
    options = parse_options()
    kinds = list(
        dict.fromkeys(
            (trained, "none" if trained in ("bm25", "untrained") else validated)
            for trained in options.trained
            for validated in options.validated
        )
    )

    print_report(Ablation(options), kinds)
    if options.template_test:
        print()
        print_report(TemplateTest(options), [kind for kind in kinds if kind[0] != "questions"])


def print_report(ablation: Ablation, kinds: Sequence[Kind]) -> None:
    """Measure the systems of all splitters and of `kinds`, and print the report."""
    splitters = ablation.options.splitters
    cells = {
        (splitter, kind): ablation.cell(splitter, kind) for kind in kinds for splitter in splitters
    }

    sizes = ", ".join(f"{splitter} {len(ablation.rows(splitter)):,}" for splitter in splitters)
    print(f"{len(ablation.questions())} {ablation.measured}; passages: {sizes}\n")
    if cells:
        print("\n".join(report(cells)))


if __name__ == "__main__":
    main()
