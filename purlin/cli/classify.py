"""`purlin classify`: label texts by the names of the labels."""

from __future__ import annotations

import argparse
import contextlib
import math
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from purlin.cli import terminal
from purlin.cli.terminal import Parser, print_line, print_record, styled
from purlin.index.builds.catalogs import CLASSIFIERS

if TYPE_CHECKING:
    from purlin.index.classify.texts import TextRow
    from purlin.index.classify.trained import TrainedClassifier
    from purlin.index.classify.zero_shot import NamedLabels
    from purlin.index.pace import Progress
    from purlin.index.records import Classification

ABOUT = """Label texts by the names of the labels alone, without training, or by a classifier made by
`purlin train pesco`. Exit status: 0 if each text got a label, 1 if one did not (--min-score), 2 for an
error."""
EXAMPLE = 'purlin classify "The match ended 2:1 after extra time." --labels sports,business'
_SHOWN_CHARS = 80
_FORMATS = ("lines", "whole", "json", "jsonl", "csv", "tsv")
# Texts that are classified before their results are printed.
_BLOCK = 256


def run(arguments: Sequence[str]) -> int:
    """Run the command; returns 0 if each text got a label, else 1."""
    from purlin.index.classify.scores import check_texts
    from purlin.index.classify.text_warnings import text_warnings

    options = _parse(arguments)
    rows = _filled_rows(options) if options.texts else _argument_rows(options.text)
    texts = [row.text for row in rows]
    check_texts(texts)
    classifier = _trained(options) if options.classifier else _untrained(options)
    names = [row.id for row in rows] if options.texts else None
    of_texts = text_warnings(classifier.encoder, texts, names)
    _note_warnings([*classifier.label_set.warnings(), *of_texts])

    # Texts that are classified together are one block.
    size = len(rows) if options.transductive else _BLOCK
    unlabelled = 0
    doubtful: list[tuple[TextRow, Classification]] = []
    with _progress() as show:
        for start in range(0, len(rows), size):
            show("classify", start, len(rows))
            block = rows[start : start + size]
            block_texts = [row.text for row in block]
            classified = classifier.classify(block_texts, min_score=options.min_score)
            results = list(zip(block, classified, strict=True))
            unlabelled += sum(not _labels_of(result) for _, result in results)

            if options.review is None:
                _print_results(results, options)
            else:
                doubtful = _most_doubtful([*doubtful, *results], options)

    _print_results(doubtful, options)
    return 1 if unlabelled else 0


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = Parser("classify", "TEXT... | --texts FILE  --labels A,B,C [options]", ABOUT, EXAMPLE)
    add = parser.add_argument
    _add_texts(parser)
    add(
        "--labels",
        metavar="A,B,C",
        action="append",
        help="Names of the labels; may be repeated. Those with commas are for --labels-file.",
    )
    add(
        "--labels-file",
        type=Path,
        metavar="FILE",
        help="Names of the labels, one a line; `name = one wording | another` compares these.",
    )
    add("--classifier", metavar="NAME", help="A classifier of --home, instead of labels.")
    add("--template", action="append", help="With {label} in it; may be repeated.")
    add(
        "--multi",
        action="store_true",
        help="Score each label on its own, and print all that fit: that score --min-score, or 0.5 "
        "and have a third of the best one's odds.",
    )
    add(
        "--transductive",
        action="store_true",
        help="Let each text's neighbours among the others count; for hundreds of texts of one kind.",
    )
    add("--min-score", type=float, default=0.0, help="Below it no label is given [default: 0].")
    add(
        "--review",
        type=int,
        metavar="N",
        help="Print only the N most doubtful results, the most doubtful first.",
    )
    add(
        "--json",
        action="store_true",
        help="One JSON object per text, with the scores of the best 100 labels.",
    )
    add(
        "--encoder",
        metavar="labels|static|ensemble|transformer|DIR",
        help="The encoder [default: labels].",
    )
    parser.add_home()

    options = parser.parse_args(arguments)
    _check(parser, options)
    return options


def _add_texts(parser: Parser) -> None:
    """Add the options that say which texts to classify."""
    add = parser.add_argument
    add("text", metavar="TEXT", nargs="*", help="A text; - reads them from stdin, one a line.")
    add(
        "--texts",
        metavar="FILE",
        help="A file of texts instead: CSV, TSV, JSON, JSON Lines, Parquet, or one text a line; "
        "- is stdin in --format.",
    )
    add("--column", metavar="COLUMN", help="The column of the texts in a table [default: text].")
    add("--id", metavar="COLUMN", help="What identifies a row [default: its number].")
    add(
        "--format",
        choices=_FORMATS,
        help="How --texts - is read: one text a line, whole (one text of many lines), or as a "
        "table [default: lines].",
    )
    add("--html", action="store_true", help="Remove HTML tags from the texts of --texts.")


def _check(parser: Parser, options: argparse.Namespace) -> None:
    """End the command with an error if options do not go together."""
    if bool(options.text) == bool(options.texts):
        parser.error("give texts, or a file of texts with --texts")
    of_files = options.column or options.id or options.html or options.format
    if options.text and of_files:
        parser.error("--column, --id, --html and --format are for --texts")
    if options.format and options.texts != "-":
        parser.error(
            "--format is for --texts -, as a file's suffix tells its format; of another file, "
            f"--texts - --format {options.format} < FILE reads it"
        )

    if sum(bool(way) for way in (options.labels, options.labels_file, options.classifier)) != 1:
        parser.error("give one of --labels, --labels-file and --classifier")
    if options.classifier and (options.template or options.multi or options.encoder):
        parser.error("a classifier has its own: leave --template, --multi and --encoder out")
    if options.transductive and (options.multi or options.classifier):
        parser.error("--transductive is for --labels or --labels-file without --multi")

    if not 0 <= options.min_score <= 1:
        parser.error("--min-score takes a number from 0 to 1")
    if options.review is not None and options.review < 1:
        parser.error("--review takes a number from 1")


def _untrained(options: argparse.Namespace) -> NamedLabels:
    """The labels to choose from by their names. Raises NotFound and InvalidInput."""
    from purlin.index.classify.labels import DEFAULT_TEMPLATES
    from purlin.index.classify.zero_shot import Classifier, NamedLabels
    from purlin.index.encoder import encoder_directory, load_encoder
    from purlin.index.errors import InvalidInput

    labels = _labels(options)
    if len(labels) == 1 and not options.multi:
        raise InvalidInput(
            f"There is one label, {labels[0]!r:.80}, so nothing to choose from: give another, or "
            "--multi to score how well it fits. --labels are separated by commas, those of "
            "--labels-file by lines.",
            field="labels",
        )

    classifier = Classifier(load_encoder(encoder_directory(options.encoder or "labels")))
    templates = tuple(options.template or DEFAULT_TEMPLATES)
    return NamedLabels(classifier, labels, templates, options.multi, options.transductive)


def _trained(options: argparse.Namespace) -> TrainedClassifier:
    """The trained classifier of --classifier."""
    from purlin.index import builds
    from purlin.index.classify.trained import TrainedClassifier

    build = builds.current(options.home, options.classifier, CLASSIFIERS)
    return TrainedClassifier.load(build)


def _labels(options: argparse.Namespace) -> list[str]:
    """Names of the labels. Raises NotFound and InvalidInput for a file that cannot be read, or JSON."""
    from purlin.index.classify.texts import read_label_lines
    from purlin.index.errors import InvalidInput

    if options.labels_file:
        return read_label_lines(options.labels_file)

    text = ",".join(options.labels)
    if text.lstrip().startswith(('["', '{"')):
        raise InvalidInput(
            "--labels takes names, not JSON: write them with commas between them, or one a line in a "
            "file, --labels-file.",
            field="labels",
        )
    names = text.split(",")
    return [name.strip() for name in names if name.strip()]


# ---- texts


def _filled_rows(options: argparse.Namespace) -> list[TextRow]:
    """The rows of --texts that have a text; says how many have none, and which.

    Raises NotFound and InvalidInput.
    """
    from purlin.index.classify.texts import (
        filled_rows,
        tag_warnings,
        undecoded_warnings,
        without_tags,
    )
    from purlin.index.sources.tables import table_format

    rows = list(_file_rows(options))
    if not options.format and not table_format(Path(options.texts)):
        _note_table([row.text for row in rows], options.texts)
    if options.html:
        rows = list(without_tags(rows))
    else:
        _note_warnings(tag_warnings([row.text for row in rows]))
    _note_warnings(undecoded_warnings([row.text for row in rows]))
    return filled_rows(rows, terminal.print_note)


def _file_rows(options: argparse.Namespace) -> Iterator[TextRow]:
    """The rows of --texts. Raises NotFound and InvalidInput."""
    from purlin.index.classify.texts import read_texts, whole_text

    if options.texts != "-":
        yield from read_texts(
            Path(options.texts), options.texts, column=options.column, id_column=options.id
        )
    elif options.format == "whole":
        yield whole_text(sys.stdin.buffer.read(), "stdin")
    else:
        yield from _stdin_rows(options.format or "lines", options.column, options.id)


def _stdin_rows(
    format: str = "lines", column: str | None = None, id_column: str | None = None
) -> Iterator[TextRow]:
    """The rows of stdin. Raises InvalidInput."""
    from purlin.index.classify.texts import read_texts

    # Readers look at the whole file before its first row.
    suffix = "" if format == "lines" else f".{format}"
    with tempfile.NamedTemporaryFile(suffix=suffix) as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
        file.flush()
        yield from read_texts(Path(file.name), "stdin", column=column, id_column=id_column)


def _note_warnings(warnings: Iterable[str]) -> None:
    for warning in warnings:
        terminal.print_note(f"warning: {warning}")


def _argument_rows(arguments: Sequence[str]) -> list[TextRow]:
    """The texts, where each - stands for the lines of stdin that are not blank.

    Raises InvalidInput for lines that cannot be read.
    """
    from purlin.index.classify.texts import TextRow, undecoded_warnings

    texts: list[str] = []
    for argument in arguments:
        if argument == "-":
            lines = [row.text for row in _stdin_rows()]
            _note_warnings(undecoded_warnings(lines))
            _note_table(lines)
            texts += lines
        else:
            texts.append(argument)
            if len(argument) < _SHOWN_CHARS and Path(argument).is_file():
                terminal.print_note(
                    f"warning: {argument} is a file, and its name was classified: "
                    f"--texts {argument} classifies what it holds"
                )
    return [TextRow(str(number), text) for number, text in enumerate(texts, 1)]


def _note_table(lines: Sequence[str], path: str = "-") -> None:
    """Warn if the lines of a file, or of stdin, are a table."""
    from purlin.index.classify.texts import format_of_lines

    if kind := format_of_lines(lines):
        name, redirection = ("stdin", "") if path == "-" else (path, f" < {path}")
        terminal.print_note(
            f"warning: {name} looks like {kind.upper()}, and each line was read as a text: "
            f"--texts - --format {kind}{redirection} reads its rows"
        )


# ---- results


def _labels_of(result: Classification) -> tuple[str, ...]:
    """All labels that fit, if they were scored each on its own, or the best one."""
    if result.labels is not None:
        return result.labels
    return () if result.label is None else (result.label,)


def _certainty(result: Classification, min_score: float) -> float:
    """How far a result is from being another one: its lead, or the distance to the threshold."""
    if result.labels is None:
        return min(result.margin, abs(result.score - min_score)) if min_score else result.margin

    from purlin.index.classify.scores import FITTING_SCORE, fitting_score

    best, *others = (_log_odds(each.score) for each in result.ranking)
    least = _log_odds(fitting_score(result.score, min_score))
    distance = abs(best - _log_odds(min_score or FITTING_SCORE))
    return min([distance, *(abs(log_odds - least) for log_odds in others)])


def _log_odds(score: float) -> float:
    """Scores near 0 and 1 as far apart as those between."""
    inside = min(max(score, 1e-6), 1 - 1e-6)
    return math.log(inside / (1 - inside))


@contextlib.contextmanager
def _progress() -> Iterator[Progress]:
    """Show how many texts are classified; where results appear on a terminal, they do."""
    if sys.stdout.isatty():
        yield lambda stage, finished_count, total: None
        return

    with terminal.progress() as show:
        yield show


def _most_doubtful(
    results: list[tuple[TextRow, Classification]], options: argparse.Namespace
) -> list[tuple[TextRow, Classification]]:
    """The results that --review prints, the most doubtful first."""
    by_certainty = sorted(results, key=lambda pair: _certainty(pair[1], options.min_score))
    return by_certainty[: options.review]


def _print_results(
    results: Iterable[tuple[TextRow, Classification]], options: argparse.Namespace
) -> None:
    for row, result in results:
        _print_result(row, result, as_json=options.json, with_id=bool(options.texts))
    sys.stdout.flush()


def _print_result(row: TextRow, result: Classification, *, as_json: bool, with_id: bool) -> None:
    if as_json:
        values = asdict(result)
        if result.labels is None:
            del values["labels"]
        record = ({"id": row.id} if with_id else {}) | {"text": row.text, **values}
        print_record(record)
        return

    label = styled(", ".join(_labels_of(result)) or "-", terminal.CYAN)
    text = terminal.visible(" ".join(row.text.split()))[:_SHOWN_CHARS]
    columns = [label, f"{result.score:.2f}", text]
    print_line("\t".join([" ".join(row.id.split()), *columns] if with_id else columns))
