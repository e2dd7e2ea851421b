"""The ablation of the paper on reference QA: splitters x training data x {search, reader}, on two kinds of questions.

    python benchmarks/refqa.py --data DIR --questions questions/python.jsonl --out DIR [--splitters ...] [--trained ...]

`--data` has references/python3.11 and so_pydocs/. Retrievers are trained from all-MiniLM-L6-v2 on questions about
entries' definitions, all for as many steps: "template" in the first wording of each form; "paraphrase" in the others,
which stand in for back-translation as there is no translator here; "both"; and "both + real" with the titles of Stack
Overflow questions that led to an entry. A reader of each kind ranks the best passages again, with the clues of spans
but without those of passages. Measured are questions that were written one at a time (a split of the file) and
questions by template whose entries were kept aside, by the passages' words, as the paper does. Cells that were done
before are kept. Differences of MRR, to the same splitter untrained (u) and to the simple splitter with the same
training (s), are paired by query, with the p of a sign-flip test.
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

from index import builds
from index.encoder import Encoder
from index.evaluation.answers import DEPTHS, Question, judge, read_questions
from index.evaluation.ranking import difference
from index.indexing.build import Options, build
from index.qa.judging import hit_entry
from index.qa.question import parse_question
from index.qa.reader import Reader, reading_passage
from index.qa.spans import rank_answers
from index.records import Document, Skipped, Splitter
from index.search.corpus import Corpus
from index.sources import open_source
from training import export, model, reader, santa
from training.data import templates
from training.data.pairs import PairSource
from training.data.questions import QuestionSource
from training.loop import LoopSettings, StepProgress

SPLITTERS: tuple[Splitter, ...] = ("simple", "structure", "extended")
TRAINED = ("untrained", "template", "paraphrase", "both", "both + real")
READ = 20  # passages that a reader ranks
ASKED = 200  # questions by template that are measured
RETRIEVER = LoopSettings(batch_size=64, steps=120, learning_rate=3e-5, every=1 << 20)
READER = LoopSettings(batch_size=16, steps=120, learning_rate=1e-4, fresh_rate=5.0, every=1 << 20)
SETTINGS = model.ModelSettings(dropout=0.0)

Values = dict[str, list[float]]


def wordings(kind: str, out: Path) -> Path:
    """A file of templates with some of the wordings of each form."""
    rules = tomllib.loads(templates.TEMPLATE_RULES.read_text(encoding="utf-8"))
    for form in rules["forms"]:
        first, others = form["texts"][:1], form["texts"][1:]
        form["texts"] = {"template": first, "paraphrase": others or first}.get(kind, form["texts"])
    path = out / f"{kind}.toml"
    path.write_text("\n".join(_toml(rules)), encoding="utf-8")
    return path


def _toml(content: dict[str, Any]) -> Iterator[str]:
    """Plain values first, then arrays of tables; JSON's strings, numbers and arrays are TOML's."""
    tables = {
        key: value
        for key, value in content.items()
        if isinstance(value, list) and isinstance(value[0], dict)
    }
    yield from (
        f"{key} = {json.dumps(value)}" for key, value in content.items() if key not in tables
    )
    for key, rows in tables.items():
        for row in rows:
            yield from (
                f"[[{key}]]",
                *(f"{name} = {json.dumps(value)}" for name, value in row.items()),
            )


def shown(stage: str) -> StepProgress:
    def step(number: int, total: int, values: Any) -> None:
        if number % 20 == 0 or number == total:
            print(
                f"  {stage} {number}/{total} loss {values['loss']:.3f}", file=sys.stderr, flush=True
            )

    return step


class Ablation:
    """The command's options, and what its cells share."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.out = options, options.out
        self.reference, self.real = (
            options.data / "references/python3.11",
            options.data / "so_pydocs/train.jsonl.gz",
        )
        self.out.mkdir(parents=True, exist_ok=True)

    def say(self, line: str) -> None:
        print(f"  {line}", file=sys.stderr, flush=True)

    def rules(self, kind: str) -> Path:
        """The templates of one kind of data."""
        return wordings(kind.partition(" ")[0], self.out)

    @cache  # noqa: B019
    def encoder(self, kind: str) -> Encoder:
        """The retriever of one kind, trained if it is not there yet."""
        place = self.out / "retrievers" / kind.replace(" ", "")
        if kind == "untrained":
            if not (place / "base").is_dir():
                export.export(export.base_checkpoint(), place / "base", export.Card("base"))
            return Encoder.load(place / "base")
        if not (place / "retriever").is_dir():
            pairs = (
                PairSource("templates", self.reference, kind="reference", rules=self.rules(kind)),
            )
            if "real" in kind:
                linked = PairSource(
                    "linked", self.real, kind="reference", reference=self.reference, limit=4000
                )
                pairs = (*pairs, linked)
            stage = santa.Stage(name="fine-tune", temperature=0.05, loop=RETRIEVER)
            recipe = santa.SantaRecipe(
                name="retriever", pairs=pairs, stage=(stage,), model=SETTINGS
            )
            santa.train_santa(recipe, place, progress=shown, say=self.say)
        return Encoder.load(place / "retriever")

    @cache  # noqa: B019
    def reader(self, kind: str) -> Reader:
        """The reader of one kind."""
        place = self.out / "readers" / kind.replace(" ", "")
        if not (place / "reader-int8").is_dir():
            asked = (
                QuestionSource(format="templates", path=self.reference, rules=self.rules(kind)),
            )
            if "real" in kind:
                linked = QuestionSource(
                    format="linked", path=self.real, reference=self.reference, limit=4000
                )
                asked = (*asked, linked)
            reading = reader.ReadingSettings(passages=3, max_tokens=192)
            recipe = reader.ReaderRecipe(
                name="reader-int8", asked=asked, model=SETTINGS, reading=reading, loop=READER
            )
            reader.train_reader(recipe, place, progress=shown, say=self.say)
        return Reader.load(place / "reader-int8")

    @cache  # noqa: B019
    def questions(self) -> dict[str, list[Question]]:
        """Written ones, and those by template over the entries of the test split."""
        written = [
            one for one in read_questions(self.options.questions, self.options.split) if one.answers
        ]
        made = templates.questions(self.documents(), "test", wordings("template", self.out))
        chosen = random.Random(1).sample(made, min(ASKED, len(made)))
        by_template = [
            Question(str(number), one.question, (one.answer,), None, one.form, "test")
            for number, one in enumerate(chosen)
        ]
        return {"written": written, "template": by_template}

    def documents(self) -> Iterator[Document]:
        for file in open_source("reference", [self.reference]):
            for found in () if isinstance(file, Skipped) else file.read():
                if isinstance(found, Document):
                    yield found

    def corpus(self, splitter: Splitter, kind: str) -> Corpus:
        """The reference in the splitter's passages, ranked by the retriever's vectors alone."""
        home, encoder = self.out / "home", self.encoder(kind)
        name = f"{splitter}-{kind.replace(' + ', '-')}"
        if not (home / "corpora" / name).is_dir():
            sources = open_source("reference", [self.reference])
            build(
                home,
                name,
                "reference",
                sources,
                encoder,
                options=Options(splitter, dense_weight=1.0),
            )
        return Corpus.load(builds.current(home, name), encoder)

    def cell(self, splitter: Splitter, kind: str) -> Values:
        """Reciprocal ranks and hits of each question, by `set: measure`."""
        kept = self.out / f"{splitter}-{kind.replace(' ', '')}.json"
        if not kept.is_file():
            print(f"{splitter}, {kind}", file=sys.stderr, flush=True)
            corpus, values = self.corpus(splitter, kind), Values()
            read = None if kind == "untrained" else self.reader(kind)
            for name, asked in self.questions().items():
                for question in asked:
                    for way, rank in ranks(corpus, read, question).items():
                        values.setdefault(f"{name}, {way}: MRR", []).append(
                            1 / rank if rank else 0.0
                        )
                        for k in DEPTHS:
                            values.setdefault(f"{name}, {way}: @{k}", []).append(
                                float(bool(rank) and rank <= k)
                            )
            corpus.close()
            kept.write_text(json.dumps(values))
        found: Values = json.loads(kept.read_text())
        return found


def ranks(corpus: Corpus, read: Reader | None, question: Question) -> dict[str, int | None]:
    """Where the first passage with the answer's words stands, before and after the reader."""
    found, _ = corpus.passages(question.question, max(DEPTHS))
    passages = [(hit_entry(one.hit), one.hit.text) for one in found]
    result = {"search": judge(question, passages, (), 0.0).answer_rank}
    if read is not None:
        read_passages = [reading_passage(one.document, one.passage) for one in found[:READ]]
        reading = rank_answers(
            parse_question(question.question),
            read_passages,
            read.read(question.question, read_passages),
            prior_weight=read.settings.prior_weight,
            k=1,
        )
        order = [
            *np.argsort(-reading.relevance, kind="stable").tolist(),
            *range(READ, len(passages)),
        ]
        result["reader"] = judge(question, [passages[at] for at in order], (), 0.0).answer_rank
    return result


def line(names: Sequence[str], values: Values, compared: Sequence[tuple[str, Values]]) -> str:
    """A row's cells: means, and how MRR differs from that of other rows."""
    cells = []
    for name in names:
        text = f"{np.mean(values[name]):.3f}" if name in values else ""
        for letter, other in compared:
            if text and name.endswith("MRR") and name in other:
                gained = difference(name, np.array(other[name]), np.array(values[name]))
                text += f" ({letter} {gained.mean:+.3f}, p {gained.p:.4f})"
        cells.append(text)
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
    parser.add_argument("--trained", nargs="+", choices=TRAINED, default=TRAINED)
    options = parser.parse_args()

    ablation = Ablation(options)
    found = {
        (splitter, kind): ablation.cell(splitter, kind)
        for kind in options.trained
        for splitter in options.splitters
    }
    names = list(next(reversed(found.values())))
    print(f"| splitter | trained on | {' | '.join(names)} |\n{'|---' * (len(names) + 2)}|")
    for (splitter, kind), values in found.items():
        others = (("u", found.get((splitter, "untrained"))), ("s", found.get(("simple", kind))))
        compared = [
            (letter, other) for letter, other in others if other is not None and other is not values
        ]
        print(f"| {splitter} | {kind} | {line(names, values, compared)} |")


if __name__ == "__main__":
    main()
