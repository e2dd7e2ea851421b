"""`purlin train`: train and export encoders, readers and classifiers."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from purlin.cli.console import (
    HOME,
    Home,
    ShowProgress,
    err,
    out,
    progress_bars,
    undone_if_interrupted,
)

app = typer.Typer(
    no_args_is_help=True, help="Train and export encoders (needs the training extra)."
)

Recipe = Annotated[Path, typer.Option(help="The recipe, such as those in configs/.")]
Data = Annotated[
    Path | None,
    typer.Option(help="What the recipe's paths are relative to [default: its directory]."),
]
RunDirectory = Annotated[
    Path | None,
    typer.Option(
        "--out",
        help="Where checkpoints and results go [default: training/NAME below --home, or var].",
    ),
]
UnlabelledTexts = Annotated[
    Path,
    typer.Option(
        help="Unlabelled texts: CSV, TSV, JSON, JSON Lines or Parquet with a --column, or one a line."
    ),
]
Templates = Annotated[
    Path | None, typer.Option(help="Prompts, one a line, with {label} [default: the recipe's].")
]
PescoRecipe = Annotated[
    Path | None, typer.Option(help="A recipe [default: as configs/pesco-minilm.toml].")
]
LabelledTexts = Annotated[
    Path | None,
    typer.Option(
        help="A table of labelled texts to measure on, with --column and --label-column; nothing is chosen by it."
    ),
]
LabelNames = Annotated[
    Path, typer.Option(help="Label names, one a line; or name = wording | wording.")
]
TextColumn = Annotated[
    str | None,
    typer.Option(help="The column of the texts in a table, also in --dev [default: text]."),
]
RemoveTags = Annotated[
    bool, typer.Option("--html", help="Remove HTML tags from the texts, also of --dev.")
]
Cpu = Annotated[bool, typer.Option("--cpu", help="Leave a GPU unused.")]


@app.command("export")
def train_export(
    checkpoint: Annotated[
        Path, typer.Argument(help="A sentence-transformers or Hugging Face checkpoint directory.")
    ],
    to: Annotated[Path, typer.Option(help="The encoder directory to write.")],
    name: Annotated[str, typer.Option(help="The encoder's name.")],
    base_model: Annotated[
        str, typer.Option(help="For the model card: what was trained from.")
    ] = "unknown",
    base_licence: Annotated[
        str, typer.Option(help="For the model card: the base's licence.")
    ] = "unknown",
    fp32: Annotated[
        bool, typer.Option("--fp32", help="Keep 32-bit weights instead of 8-bit ones.")
    ] = False,
) -> None:
    """Export a checkpoint as an encoder directory, after comparing its vectors with the checkpoint's.

    Prompts that the checkpoint has for queries and passages become the encoder's prefixes.

    Example: purlin train export var/training/santa/finetune/step-000400 --to models/santa --name santa
    """
    need_training()
    from purlin.training.exporting.checks import Quantization
    from purlin.training.exporting.encoder import export_encoder
    from purlin.training.exporting.model_card import Card

    card = Card(name, base_model=base_model, base_licence=base_licence)
    quantization: Quantization = "none" if fp32 else "int8"
    export_encoder(checkpoint, to, card, quantization=quantization, own_prompts=True)
    out.print(f"{to}: written")


@app.command("santa")
def santa_command(
    config: Recipe, data: Data = None, to: RunDirectory = None, cpu: Cpu = False
) -> None:
    """Train a retrieval encoder on pairs of text and structured data (SANTA), and export it.

    A run that was interrupted goes on from its last checkpoint when it is started again. Several GPUs or machines:
    accelerate launch -m purlin train santa ...; several processes on CPUs: torchrun --nproc_per_node 2 -m purlin ...

    Example: purlin train santa --config configs/santa-minilm.toml --data DATA
    """
    need_training()
    from purlin.training.santa.recipe import SantaRecipe
    from purlin.training.santa.run import train_santa

    _print_encoder(_trained(train_santa, SantaRecipe, config, data, to, cpu))


@app.command("static")
def static_command(
    config: Recipe, data: Data = None, to: RunDirectory = None, cpu: Cpu = False
) -> None:
    """Train a static encoder: word vectors of a transformer, aligned on pairs, and export it.

    A run that was interrupted goes on from its last checkpoint when it is started again.

    Example: purlin train static --config configs/static-code.toml --data DATA
    """
    need_training()
    from purlin.training.static.recipe import StaticRecipe
    from purlin.training.static.run import train_static

    _print_encoder(_trained(train_static, StaticRecipe, config, data, to, cpu))


@app.command("languages")
def languages_command(config: Recipe, data: Data = None, to: RunDirectory = None) -> None:
    """Add words of other languages to a static encoder, from translations, and export it.

    The vectors of English texts stay as they are.

    Example: purlin train languages --config configs/languages.toml --data DATA
    """
    need_training()
    from purlin.training import config as recipes
    from purlin.training.static.languages import LanguagesRecipe, add_languages

    recipe = recipes.load_recipe(config, LanguagesRecipe, data=data)
    _print_encoder(add_languages(recipe, to or HOME / "training" / recipe.name, say=err.print))


@app.command("ensemble")
def ensemble_command(config: Recipe, data: Data = None) -> None:
    """Join encoders to one whose vectors are made of theirs, or readers to one whose logits are the means of theirs.

    A recipe whose `parts` name encoders makes an encoder, one whose `parts` name readers a reader. Either is exported
    beside its parts.

    Example: purlin train ensemble --config configs/ensemble.toml --data DATA
    """
    need_training()
    from purlin.training import config as recipes
    from purlin.training import ensemble
    from purlin.training.reader import ensemble as reader_ensemble

    if _has_readers(recipes.read_toml(config)):
        readers = recipes.load_recipe(config, reader_ensemble.ReaderEnsembleRecipe, data=data)
        _print_reader(reader_ensemble.make_reader_ensemble(readers))
    else:
        encoders = recipes.load_recipe(config, ensemble.EnsembleRecipe, data=data)
        _print_encoder(ensemble.make_ensemble(encoders, say=err.print))


def _has_readers(recipe: Mapping[str, Any]) -> bool:
    """Tell whether a recipe's `parts` name readers; what is wrong with them is told when it is loaded."""
    parts = recipe.get("parts")
    return isinstance(parts, list) and any(
        isinstance(part, dict) and "reader" in part for part in parts
    )


@app.command("refqa")
def refqa_command(
    config: Recipe, data: Data = None, to: RunDirectory = None, cpu: Cpu = False
) -> None:
    """Train a reader, which finds answers in passages of references, or a retriever, which finds the passages.

    A recipe with `questions` makes a reader, one with `pairs` a retriever, an encoder as `train santa` makes
    them, with one model for questions and passages or two as in DPR. A run that was interrupted goes on when it is
    started again.

    Example: purlin train refqa --config configs/refqa-minilm.toml --data DATA
    """
    need_training()
    from purlin.training import config as recipes
    from purlin.training.reader.recipe import ReaderRecipe
    from purlin.training.reader.run import train_reader

    if "questions" in recipes.read_toml(config):
        _print_reader(_trained(train_reader, ReaderRecipe, config, data, to, cpu))
    else:
        santa_command(config, data, to, cpu)


@app.command("ranker")
def ranker_command(
    config: Recipe, data: Data = None, to: RunDirectory = None, cpu: Cpu = False
) -> None:
    """Train a reranker, a cross-encoder that scores the first hits of a search again, and export it.

    A run that was interrupted goes on from its last checkpoint when it is started again.

    Example: purlin train ranker --config configs/rerank-minilm.toml --data DATA
    """
    need_training()
    from purlin.training.ranker.recipe import RankerRecipe
    from purlin.training.ranker.run import train_ranker

    directory = _trained(train_ranker, RankerRecipe, config, data, to, cpu)
    out.print(f"{directory}: written; the server takes it with PURLIN_RERANKER={directory}")


@app.command("pesco")
def pesco_command(
    texts: UnlabelledTexts,
    labels: LabelNames,
    name: Annotated[str, typer.Option(help="The classifier's name.")],
    column: TextColumn = None,
    label_column: Annotated[str, typer.Option(help="The column of the labels in --dev.")] = "label",
    html: RemoveTags = False,
    templates: Templates = None,
    config: PescoRecipe = None,
    dev: LabelledTexts = None,
    to: RunDirectory = None,
    home: Home = HOME,
    cpu: Cpu = False,
) -> None:
    """Train a classifier from label names and unlabelled texts (PESCO), and publish it to the server.

    A run that was interrupted goes on when it is started again.

    Example: purlin train pesco --texts tickets.jsonl --labels labels.txt --name tickets
    """
    need_training()
    from purlin.training.pesco import self_training
    from purlin.training.pesco import texts as read
    from purlin.training.pesco.publishing import REPORT
    from purlin.training.pesco.recipe import read_recipe

    recipe = read_recipe(config, templates)
    names = read.read_labels(labels)
    pool = read.read_pool(
        texts, labels=len(names), limit=recipe.limit, seed=recipe.seed, column=column, html=html
    )
    for warning in read.pool_warnings(pool, texts, html=html):
        err.print(f"warning: {warning}")

    dev_texts = None
    if dev is not None:
        dev_texts = read.read_labelled_texts(
            dev, names, err.print, column=column or "text", label_column=label_column, html=html
        )

    run_dir = to or home / "training" / name
    with (
        undone_if_interrupted("interrupted; the same command goes on where it stopped"),
        progress_bars() as tell,
    ):
        built = self_training.train_pesco(
            recipe,
            pool,
            names,
            name=name,
            out=run_dir,
            home=home,
            dev=dev_texts,
            progress=training_steps(tell),
            say=err.print,
            cpu=cpu,
        )
    out.print(
        f"{built}: published; POST /classify takes it as classifier {name!r}. Report: {run_dir / REPORT}"
    )


def _print_encoder(directory: Path) -> None:
    out.print(f"{directory}: written; use it with `purlin index build ... --encoder {directory}`")


def _print_reader(directory: Path) -> None:
    out.print(f"{directory}: written; the server takes it with PURLIN_READER={directory}")


def _trained(
    train: Callable[..., Path],
    recipe_type: Any,
    config: Path,
    data: Path | None,
    to: Path | None,
    cpu: bool,
) -> Path:
    """Run `train` on the recipe of `recipe_type` at `config`; return the exported directory."""
    from purlin.training.config import load_recipe

    recipe = load_recipe(config, recipe_type, data=data)
    with (
        undone_if_interrupted("interrupted; the same command goes on from the last checkpoint"),
        progress_bars() as tell,
    ):
        return train(
            recipe,
            to or HOME / "training" / recipe.name,
            progress=training_steps(tell),
            say=err.print,
            cpu=cpu,
        )


def training_steps(
    tell: ShowProgress,
) -> Callable[[str], Callable[[int, int, Mapping[str, float]], None]]:
    """For each stage its progress and time left, and a line whenever the dev sets were measured."""

    def of_stage(name: str) -> Callable[[int, int, Mapping[str, float]], None]:
        def step(number: int, total: int, values: Mapping[str, float]) -> None:
            remaining = time_left(values.get("seconds_left", 0.0))
            tell(name, number, total, remaining)

            if measured := [
                f"{key} {value:.4f}" for key, value in values.items() if key.startswith("dev ")
            ]:
                shown = [
                    f"loss {values['loss']:.4f}",
                    *measured,
                    f"{values['pairs_per_s']:.1f} pairs/s",
                    remaining,
                ]
                err.print(f"{name} {number:,}: {', '.join(filter(None, shown))}")

        return step

    return of_stage


def time_left(seconds: float, now: datetime | None = None) -> str:
    """Say e.g. 'about 34 min left, until 14:05'; nothing for 0 s, no time of day below two minutes."""
    if seconds <= 0:
        return ""
    if seconds < 120:
        return f"about {math.ceil(seconds)} s left"

    now = now or datetime.now().astimezone()
    end = now + timedelta(seconds=seconds)
    day = "" if end.date() == now.date() else f"{end:%b} {end.day}, "
    hours = seconds / 3600
    duration = f"{hours:.1f} h" if hours < 48 else f"{hours / 24:.1f} days"
    if hours < 2:
        duration = f"{seconds / 60:.0f} min"
    return f"about {duration} left, until {day}{end:%H:%M}"


def need_training() -> None:
    """Raise NotFound, with the remedy, unless the packages of the training extra are installed."""
    from importlib.util import find_spec

    from purlin.index.errors import NotFound

    if missing := [
        name for name in ("torch", "transformers", "accelerate") if find_spec(name) is None
    ]:
        raise NotFound(
            f"Training needs {', '.join(missing)}. Run `make install-dev`, or pip install 'purlin-search[training]'."
        )
    if not err.is_terminal:
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # transformers' bars too
