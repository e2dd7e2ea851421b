"""`purlin evaluate`: measure corpora, classifiers and answers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from purlin.cli.console import (
    HOME,
    AsJson,
    EncoderDirectory,
    Filters,
    Home,
    SearchMode,
    err,
    open_encoder,
    out,
    progress_bars,
)
from purlin.cli.corpora import open_corpora, parse_filter

if TYPE_CHECKING:
    from purlin.index.classify.labelled import LabelledRow
    from purlin.index.evaluation.ranking import Measure
    from purlin.index.records import Classification

# Pairs of labels that are shown as confused, and rows of each.
_CONFUSIONS, _ROWS_OF_CONFUSION = 10, 5

app = typer.Typer(no_args_is_help=True, help="Measure a corpus on judged queries.")

QuestionFiles = Annotated[
    list[Path],
    typer.Option(
        help="JSON Lines as in questions/; may be repeated, such as with unanswerable ones."
    ),
]
QuestionSplit = Annotated[
    str | None, typer.Option(help="Only questions of this split, dev or test.")
]
ReaderDirectory = Annotated[
    Path | None, typer.Option(envvar="PURLIN_READER", help="A reader directory.")
]
NoReader = Annotated[bool, typer.Option("--no-reader", help="Measure the search alone.")]
ReadDepth = Annotated[int | None, typer.Option(min=1, max=100, help="Passages that are read.")]
ByForm = Annotated[
    bool, typer.Option("--by-form", help="Also the right answers of each form of question.")
]
LabelledRows = Annotated[
    Path,
    typer.Option(
        help="Texts and labels in CSV, TSV, JSON, JSON Lines or Parquet; without a label where none applies."
    ),
]
LabelNames = Annotated[
    Path | None, typer.Option(help="Label names, one a line; or name = wording | wording.")
]
TextColumn = Annotated[str, typer.Option(help="The column of the texts.")]
LabelColumn = Annotated[str, typer.Option(help="The column of the labels.")]
SeveralLabels = Annotated[
    bool,
    typer.Option(
        "--multi", help="Measure several labels a text: a list, or a text with | between them."
    ),
]
TrainedClassifierName = Annotated[
    str | None, typer.Option(help="A classifier made by `purlin train pesco`.")
]
Templates = Annotated[list[str] | None, typer.Option(help="With {label} in it; may be repeated.")]
LeastScore = Annotated[float, typer.Option(min=0, max=1, help="Below it no label is given.")]
WithoutTags = Annotated[bool, typer.Option("--html", help="Remove HTML tags from the texts.")]
Together = Annotated[
    bool,
    typer.Option("--transductive", help="Let each text's neighbours among the others count."),
]


@app.command("search")
def evaluate_search(
    corpus: Annotated[str, typer.Option(help="The corpus.")],
    queries: Annotated[Path, typer.Option(help="BEIR queries.jsonl[.gz].")],
    qrels: Annotated[
        Path, typer.Option(help="BEIR qrels .tsv, or TREC qrels; in these, %XX in ids is decoded.")
    ],
    mode: SearchMode = "hybrid",
    filter: Filters = None,
    run: Annotated[
        Path | None,
        typer.Option(
            help="Write the ranking as a TREC run file; white space, control characters and % in ids become %XX."
        ),
    ] = None,
    as_json: AsJson = False,
    home: Home = HOME,
    encoder: EncoderDirectory = None,
) -> None:
    """Measure a corpus on judged queries: MRR@100, nDCG@10 and recall@100, with 95 % intervals.

    Example: purlin evaluate search --corpus cosqa --queries queries.jsonl --qrels qrels/dev.tsv --mode dense
    """
    from purlin.index.evaluation import ranking
    from purlin.index.indexing.gate import Judgements, run_queries

    [opened] = open_corpora(home, [corpus], encoder)
    judged = Judgements(ranking.read_queries(queries), ranking.read_qrels(qrels))
    with progress_bars() as tell:
        hits = run_queries(
            opened, judged, mode=mode, filter=parse_filter(filter), progress=partial(tell, "search")
        )

    if run is not None and (escaped := ranking.write_run(run, hits)):
        err.print(
            f"{run}: {escaped:,} ids hold white space, control characters or %; they are percent-encoded there "
            "(a space is %20), as TREC's columns need. TREC qrels for other tools need the same."
        )
    _print_measures(ranking.evaluate_run(hits, judged.qrels), as_json)
    opened.close()


@app.command("classify")
def evaluate_classify(
    rows: LabelledRows,
    labels: LabelNames = None,
    column: TextColumn = "text",
    label_column: LabelColumn = "label",
    html: WithoutTags = False,
    multi: SeveralLabels = False,
    classifier: TrainedClassifierName = None,
    template: Templates = None,
    min_score: LeastScore = 0.0,
    transductive: Together = False,
    as_json: AsJson = False,
    home: Home = HOME,
    encoder: EncoderDirectory = None,
) -> None:
    """Measure label names, or a trained classifier, on labelled texts, with 95 % intervals.

    Also shows which labels are taken for which.

    Example: purlin evaluate classify --rows dev.jsonl --labels labels.txt --template "This is about {label}."
    """
    from purlin.index import builds
    from purlin.index.builds.catalogs import CLASSIFIERS
    from purlin.index.classify.labelled import check_truth, read_labelled
    from purlin.index.classify.labels import DEFAULT_TEMPLATES, label_name
    from purlin.index.classify.text_warnings import text_warnings
    from purlin.index.classify.texts import read_label_lines
    from purlin.index.classify.trained import TrainedClassifier
    from purlin.index.classify.zero_shot import Classifier, NamedLabels

    _check_classify(labels, classifier, has_label_options=bool(template or transductive or multi))
    read = read_labelled(rows, column=column, label_column=label_column, several=multi)
    labelled, warnings = _cleaned(read, html=html)
    texts = [row.text for row in labelled]

    opened: NamedLabels | TrainedClassifier
    if labels is not None:
        names = read_label_lines(labels)
        check_truth(labelled, list(map(label_name, names)))
        by_names = Classifier(open_encoder(encoder, purpose="labels"))
        templates = tuple(template or DEFAULT_TEMPLATES)
        opened = NamedLabels(by_names, names, templates, multi, transductive)
    else:
        opened = TrainedClassifier.load(builds.current(home, str(classifier), CLASSIFIERS))
        check_truth(labelled, opened.spec.labels)

    warnings += opened.label_set.warnings()
    warnings += text_warnings(opened.encoder, texts, [row.id for row in labelled])
    results = opened.classify(texts, min_score=min_score)
    if not (multi or min_score):
        warnings += _unlabelled_warnings(labelled)
    for warning in warnings:
        err.print(f"warning: {warning}")
    _print_measures(_label_measures(results, labelled, several=multi), as_json)
    if not (multi or as_json):
        _print_confusions(results, labelled)


def _cleaned(rows: Iterable[LabelledRow], *, html: bool) -> tuple[Sequence[LabelledRow], list[str]]:
    """Return the rows that have a text, with `html` without tags, and warnings of what is in them."""
    from purlin.index.classify.texts import (
        filled_rows,
        tag_warnings,
        undecoded_warnings,
        without_tags,
    )

    labelled = filled_rows(without_tags(rows) if html else rows, err.print)
    texts = [row.text for row in labelled]
    return labelled, [*([] if html else tag_warnings(texts)), *undecoded_warnings(texts)]


def _unlabelled_warnings(rows: Sequence[LabelledRow]) -> list[str]:
    """Return a warning if rows have no label, which no text lacks without a least score."""
    unlabelled = sum(not row.labels for row in rows)
    if not unlabelled:
        return []
    return [
        f"{unlabelled:,} of {len(rows):,} rows have no label (null), but every text gets one without "
        "--min-score: set it, or leave these rows out."
    ]


def _check_classify(
    labels: Path | None, classifier: str | None, *, has_label_options: bool
) -> None:
    """Refuse what does not go together, before anything is read."""
    from purlin.index.errors import InvalidInput

    if (labels is None) == (classifier is None) or (classifier and has_label_options):
        raise InvalidInput(
            "Give either --labels, with or without --template, --transductive and --multi, or "
            "--classifier.",
            field="labels",
        )


def _label_measures(
    results: Sequence[Classification], rows: Sequence[LabelledRow], *, several: bool
) -> list[Measure]:
    from purlin.index.evaluation.labels import evaluate_labels, evaluate_several

    if several:
        fitting = [result.labels or () for result in results]
        return evaluate_several(fitting, [row.labels for row in rows])
    return evaluate_labels(results, list(map(_only_label, rows)))


def _only_label(row: LabelledRow) -> str | None:
    return next(iter(row.labels), None)


def _print_confusions(results: Sequence[Classification], rows: Sequence[LabelledRow]) -> None:
    """Print which labels texts got instead of theirs, those of most texts first."""
    from purlin.index.evaluation.labels import confusions

    pairs = confusions(results, list(map(_only_label, rows)))
    if not pairs:
        return

    table = Table("label", "taken for", "texts", "rows", box=None, header_style="bold")
    for true_label, label, positions in pairs[:_CONFUSIONS]:
        numbers = ", ".join(rows[position].id for position in positions[:_ROWS_OF_CONFUSION])
        more = ", …" if len(positions) > _ROWS_OF_CONFUSION else ""
        labels = (each or "null" for each in (true_label, label))
        table.add_row(*labels, str(len(positions)), numbers + more)
    out.print()
    out.print(table)
    if len(pairs) > _CONFUSIONS:
        out.print(f"… and {len(pairs) - _CONFUSIONS} more")


@app.command("qa")
def evaluate_qa(
    corpus: Annotated[str, typer.Option(help="A corpus of kind reference.")],
    questions: QuestionFiles,
    split: QuestionSplit = None,
    reader: ReaderDirectory = None,
    no_reader: NoReader = False,
    depth: ReadDepth = None,
    by_form: ByForm = False,
    as_json: AsJson = False,
    home: Home = HOME,
    encoder: EncoderDirectory = None,
) -> None:
    """Measure answers to questions: passages found, exact match, F1, and whether it knows what it cannot answer.

    Example: purlin evaluate qa --corpus python --questions questions/python.jsonl --split dev
    """
    from purlin.index.evaluation.answers import (
        READER_MEASURES,
        answer_measures,
        form_measures,
        read_questions,
    )
    from purlin.index.qa.ask import READ_DEPTH
    from purlin.index.qa.judging import judge_corpus
    from purlin.index.qa.reader import RELEASED_READER, Reader

    question_set = [question for path in questions for question in read_questions(path, split)]
    [opened] = open_corpora(home, [corpus], encoder)
    loaded = None if no_reader else Reader.load(reader or RELEASED_READER)
    with progress_bars() as tell:
        judged = judge_corpus(
            opened,
            loaded,
            question_set,
            depth=depth or READ_DEPTH,
            progress=lambda judged_count: tell("questions", judged_count, len(question_set)),
        )
    shown = [
        measure
        for measure in answer_measures(judged)
        if loaded or measure.name not in READER_MEASURES
    ]
    if by_form and loaded:
        shown += form_measures(judged)
    _print_measures(shown, as_json)
    opened.close()


@app.command("santa")
def evaluate_santa(
    judged: Annotated[
        str, typer.Option("--set", help="The published set: advtest, codesearchnet or esci.")
    ],
    data: Annotated[Path, typer.Option(help="Its files: see docs/training.md.")],
    split: Annotated[str, typer.Option(help="test, or dev for the rows to tune on.")] = "test",
    similarity: Annotated[
        str,
        typer.Option(
            help='"trained": dot products for a model trained with them; "cosine": as the server ranks.'
        ),
    ] = "trained",
    as_json: AsJson = False,
    encoder: EncoderDirectory = None,
) -> None:
    """Measure an encoder on a test set of the paper on SANTA: MRR@100 and nDCG@100, with 95 % intervals.

    Code is searched among all candidates; of ESCI, only the products judged for a query are ranked, measured in two
    classes (exact or not) and in four. Nothing is indexed: every query is compared with every passage.

    Example: purlin evaluate santa --set advtest --data AdvTest/test.jsonl --encoder models/santa-minilm-l6-int8
    """
    from purlin.cli.train import need_training

    need_training()
    from purlin.index.errors import InvalidInput
    from purlin.training.data import judged as published
    from purlin.training.data.published import JUDGED_NAMES, read_judged

    name = next((name for name in JUDGED_NAMES if name == judged), None)
    if name is None:
        set_names = ", ".join(JUDGED_NAMES)
        raise InvalidInput(f"--set must be one of {set_names}, not {judged!r:.80}.", field="set")
    if similarity not in ("trained", "cosine"):
        raise InvalidInput(
            f"--similarity must be trained or cosine, not {similarity!r:.80}.", field="similarity"
        )

    sets = read_judged(name, data, split)
    opened = open_encoder(encoder)
    with progress_bars() as tell:
        runs = [
            published.rank(
                of_set,
                opened,
                by_cosine=similarity == "cosine",
                progress=partial(tell, of_set.name),
            )
            for of_set in sets
        ]
    _print_measures(published.measures(sets, runs), as_json)


def _print_measures(measures: list[Any], as_json: bool) -> None:
    from dataclasses import asdict

    if as_json:
        print(json.dumps([asdict(measure) for measure in measures]))  # noqa: T201
        return
    table = Table("measure", "mean", "95 % interval", "queries", box=None, header_style="bold")
    for measure in measures:
        interval = f"{measure.low:.4f} - {measure.high:.4f}"
        table.add_row(measure.name, f"{measure.mean:.4f}", interval, str(measure.queries))
    out.print(table)
