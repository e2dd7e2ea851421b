"""`purlin classify`: label texts by the names of the labels."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from purlin.cli import terminal
from purlin.cli.search import add_home
from purlin.cli.terminal import Parser, print_line, styled

if TYPE_CHECKING:
    from purlin.index.classify.zero_shot import LabelSet
    from purlin.index.records import Classification

ABOUT = """Label texts by the names of the labels alone, without training, or by a classifier made by
`purlin train pesco`. Exit status: 0 if each text got a label, 1 if one did not (--min-score), 2 for an
error."""
EXAMPLE = 'purlin classify "The match ended 2:1 after extra time." --labels sports,business'
_SHOWN_CHARS = 80

# Texts that are classified before their results are printed.
_BLOCK = 256


def run(arguments: Sequence[str]) -> int:
    """Run the command; returns 0 if each text got a label, else 1."""
    from purlin.index.classify.zero_shot import check_texts

    options = _parse(arguments)
    texts = _texts(options.text)
    check_texts(texts)
    classify, label_set = _trained(options) if options.classifier else _untrained(options)

    for warning in label_set.warnings():
        terminal.print_note(f"warning: {warning}")
    unlabelled = 0
    for start in range(0, len(texts), _BLOCK):
        block = texts[start : start + _BLOCK]
        for text, result in zip(block, classify(block), strict=True):
            _print_result(text, result, as_json=options.json)
            unlabelled += result.label is None
        sys.stdout.flush()
    return 1 if unlabelled else 0


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = Parser("classify", "TEXT... --labels A,B,C [options]", ABOUT, EXAMPLE)
    add = parser.add_argument
    add("text", metavar="TEXT", nargs="+", help="A text; - reads them from stdin, one a line.")
    add("--labels", metavar="A,B,C", help="Names of the labels.")
    add("--labels-file", type=Path, metavar="FILE", help="Names of the labels, one a line.")
    add("--classifier", metavar="NAME", help="A classifier of --home, instead of labels.")
    add("--template", action="append", help="With {label} in it; may be repeated.")
    add("--multi", action="store_true", help="Score each label on its own, not against the others.")
    add("--min-score", type=float, default=0.0, help="Below it no label is given [default: 0].")
    add(
        "--json",
        action="store_true",
        help="One JSON object per text, with the scores of the best 100 labels.",
    )
    add(
        "--encoder",
        metavar="static|ensemble|transformer|DIR",
        help="The encoder [default: transformer].",
    )
    add_home(parser)

    options = parser.parse_args(arguments)
    if sum(bool(way) for way in (options.labels, options.labels_file, options.classifier)) != 1:
        parser.error("give one of --labels, --labels-file and --classifier")
    if options.classifier and (options.template or options.multi or options.encoder):
        parser.error("a classifier has its own: leave --template, --multi and --encoder out")
    if not 0 <= options.min_score <= 1:
        parser.error("--min-score takes a number from 0 to 1")
    return options


def _untrained(
    options: argparse.Namespace,
) -> tuple[Callable[[Sequence[str]], list[Classification]], LabelSet]:
    """What classifies texts by the labels' names, and the labels."""
    from purlin.index.classify.zero_shot import DEFAULT_TEMPLATES, Classifier
    from purlin.index.encoder import encoder_directory, load_encoder
    from purlin.index.errors import InvalidInput

    labels = _labels(options)
    if len(labels) == 1 and not options.multi:
        raise InvalidInput(
            "There is one label, so nothing to choose from: give another, or --multi to score how "
            "well it fits.",
            field="labels",
        )

    classifier = Classifier(load_encoder(encoder_directory(options.encoder or "transformer")))
    templates = tuple(options.template or DEFAULT_TEMPLATES)
    classify = partial(
        classifier.classify,
        labels=labels,
        templates=templates,
        multi_label=options.multi,
        min_score=options.min_score,
    )
    return classify, classifier.label_set(labels, templates)


def _trained(
    options: argparse.Namespace,
) -> tuple[Callable[[Sequence[str]], list[Classification]], LabelSet]:
    """What classifies texts by a trained classifier, and its labels."""
    from purlin.index import builds
    from purlin.index.classify.trained import TrainedClassifier

    build = builds.current(options.home, options.classifier, builds.CLASSIFIERS)
    classifier = TrainedClassifier.load(build)
    return partial(classifier.classify, min_score=options.min_score), classifier.label_set


def _labels(options: argparse.Namespace) -> list[str]:
    """Names of the labels. Raises NotFound for a file that cannot be read."""
    names = options.labels.split(",") if options.labels else _lines(options.labels_file)
    return [name.strip() for name in names if name.strip()]


def _lines(file: Path) -> list[str]:
    from purlin.index.errors import NotFound

    try:
        # Some programs begin a file with a byte order mark.
        return file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise NotFound(
            f"{file} cannot be read ({error}); give a UTF-8 file with one label a line.",
            field="labels_file",
        ) from error


def _texts(arguments: Sequence[str]) -> list[str]:
    """The texts, where each - stands for the lines of stdin that are not empty.

    Raises InvalidInput for lines that are not UTF-8.
    """
    texts: list[str] = []
    for argument in arguments:
        if argument == "-":
            texts += filter(str.strip, _input_lines())
        else:
            texts.append(argument)
    return texts


def _input_lines() -> Iterator[str]:
    """The lines of stdin, whatever encoding the locale has. Raises InvalidInput."""
    from purlin.index.errors import InvalidInput

    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            # Some programs begin a file with a byte order mark.
            yield line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError:
            raise InvalidInput(
                f"Line {number} of stdin is not UTF-8: convert it first, "
                "such as with `iconv -f latin1 -t utf-8`.",
                field="text",
            ) from None


def _print_result(text: str, result: Classification, *, as_json: bool) -> None:
    if as_json:
        print_line(json.dumps({"text": text, **asdict(result)}, ensure_ascii=False))
        return

    label = styled(result.label or "-", terminal.CYAN)
    first_line = text.partition("\n")[0]
    print_line(f"{label}\t{result.score:.2f}\t{first_line[:_SHOWN_CHARS]}")
