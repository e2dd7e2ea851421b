"""`purlin classify`: label texts by the names of the labels."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from purlin.cli import terminal
from purlin.cli.terminal import Parser, print_line, styled

if TYPE_CHECKING:
    from purlin.index.records import Classification

ABOUT = """Label texts by the names of the labels alone, without training. Exit status: 0 if each text got a
label, 1 if one did not (--min-score), 2 for an error."""
EXAMPLE = 'purlin classify "The match ended 2:1 after extra time." --labels sports,business'
_SHOWN_CHARS = 80


def run(arguments: Sequence[str]) -> int:
    """Run the command; returns 0 if each text got a label, else 1."""
    from purlin.index.classify.zero_shot import DEFAULT_TEMPLATES, Classifier
    from purlin.index.encoder import encoder_directory, load_encoder

    options = _parse(arguments)
    labels, texts = _labels(options), _texts(options.text)
    classifier = Classifier(load_encoder(encoder_directory(options.encoder)))
    templates = tuple(options.template or DEFAULT_TEMPLATES)

    for warning in classifier.label_set(labels, templates).warnings():
        terminal.print_note(f"warning: {warning}")
    results = classifier.classify(
        texts, labels, templates=templates, multi_label=options.multi, min_score=options.min_score
    )
    for text, result in zip(texts, results, strict=True):
        if options.json:
            print_line(json.dumps({"text": text, **asdict(result)}, ensure_ascii=False))
        else:
            _print_result(text, result)
    return 0 if all(result.label is not None for result in results) else 1


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = Parser("classify", "TEXT... --labels A,B,C [options]", ABOUT, EXAMPLE)
    add = parser.add_argument
    add("text", metavar="TEXT", nargs="+", help="A text; - reads them from stdin, one a line.")
    add("--labels", metavar="A,B,C", help="Names of the labels.")
    add("--labels-file", type=Path, metavar="FILE", help="Names of the labels, one a line.")
    add("--template", action="append", help="With {label} in it; may be repeated.")
    add("--multi", action="store_true", help="Score each label on its own, not against the others.")
    add("--min-score", type=float, default=0.0, help="Below it no label is given [default: 0].")
    add(
        "--json",
        action="store_true",
        help="One JSON object per text, with the score of each label.",
    )
    add(
        "--encoder",
        metavar="static|ensemble|transformer|DIR",
        default="transformer",
        help="The encoder [default: transformer].",
    )

    options = parser.parse_args(arguments)
    if (options.labels is None) == (options.labels_file is None):
        parser.error("give --labels or --labels-file")
    return options


def _labels(options: argparse.Namespace) -> list[str]:
    """Names of the labels. Raises NotFound for a file that cannot be read."""
    in_options = options.labels is not None
    names = options.labels.split(",") if in_options else _lines(options.labels_file)
    return [name.strip() for name in names if name.strip()]


def _lines(file: Path) -> list[str]:
    from purlin.index.errors import NotFound

    try:
        return file.read_text(encoding="utf-8").splitlines()
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
            yield line.decode().rstrip("\r\n")
        except UnicodeDecodeError:
            raise InvalidInput(
                f"Line {number} of stdin is not UTF-8: convert it first, "
                "such as with `iconv -f latin1 -t utf-8`.",
                field="text",
            ) from None


def _print_result(text: str, result: Classification) -> None:
    label = styled(result.label or "-", terminal.CYAN)
    first_line = text.partition("\n")[0]
    print_line(f"{label}\t{result.score:.2f}\t{first_line[:_SHOWN_CHARS]}")
