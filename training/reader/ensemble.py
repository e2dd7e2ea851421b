"""Make an ensemble of readers, whose logits are the weighted means of theirs.

Readers that share a tokenizer but were trained separately make different errors, so their mean is
right more often than each of them. Nothing is trained. All of them read each passage, which takes the
sum of their times.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from purlin.index.errors import InvalidInput
from purlin.index.qa.reader import Reader
from purlin.index.qa.reader_settings import (
    READER_SETTINGS,
    EnsembleReaderSettings,
    check_part_settings,
)
from purlin.training.config import in_range, refuse_unfit_parts
from purlin.training.exporting.directory import replacing_directory, write_settings
from purlin.training.exporting.model_card import CARD, Card, markdown_list
from purlin.training.reader.recipe import EnsembleExport


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderPart:
    """A reader's directory, and its share of the logits."""

    reader: Path
    share: float

    def __post_init__(self) -> None:
        in_range("share", self.share, 1e-6, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderEnsembleRecipe:
    """Which readers make an ensemble, and how it is exported.

    The parts must be in one directory, where the ensemble is written; their shares add up to 1.
    """

    name: str
    parts: tuple[ReaderPart, ...]
    export: EnsembleExport = field(default_factory=EnsembleExport)

    def __post_init__(self) -> None:
        Card(self.name)  # refuses a name that cannot be exported
        refuse_unfit_parts(self.name, [(part.reader, part.share) for part in self.parts])


def make_reader_ensemble(recipe: ReaderEnsembleRecipe) -> Path:
    """Export an ensemble beside its parts, replacing one of that name; return its directory.

    Raises InvalidInput for parts that do not read the same tokens, and whatever opening them raises.
    """
    parts = {
        part.reader.name: Reader.load(part.reader, threads=1).settings for part in recipe.parts
    }
    settings = EnsembleReaderSettings(
        name=recipe.name,
        max_tokens=next(iter(parts.values())).max_tokens,
        prior_weight=recipe.export.prior_weight,
        calibration=recipe.export.calibration,
        files={},
        parts={name: part.fingerprint for name, part in parts.items()},
        shares={part.reader.name: part.share for part in recipe.parts},
    )
    try:
        check_part_settings(settings, parts)
    except ValueError as error:
        raise InvalidInput(f"{recipe.name} cannot be made: {error}.", field="parts") from error

    out = recipe.parts[0].reader.parent / recipe.name
    with replacing_directory(out) as new:
        write_settings(new / READER_SETTINGS, settings, {})
        (new / CARD).write_text(_card_text(recipe))
    Reader.load(out, threads=1).close()
    return out


def _card_text(recipe: ReaderEnsembleRecipe) -> str:
    parts = markdown_list(
        f"[{part.reader.name}](../{part.reader.name}/README.md): {part.share:g} of the logits"
        for part in recipe.parts
    )
    return Card(recipe.name, base_model="", limits=recipe.export.limits).text(
        "A reader for Purlin whose logits are the weighted means of others'. It has the licences, training data and "
        "limits of its parts, which must lie beside this directory, and takes the sum of their times. `reader.json` "
        "holds the settings, the fingerprints of the parts, and a fingerprint over all that changes an answer.",
        sections={"Parts": parts},
    )
