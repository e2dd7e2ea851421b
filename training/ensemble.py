"""Make an ensemble of encoders: how much each counts, and the dimensions that their vectors need.

The parts' vectors of a sample of pairs are weighted and put in a row; the matrix keeps their
principal components (without centring, so that inner products stay what they are). Nothing is
trained by gradients: an ensemble of encoders that exist takes minutes.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from purlin.index.encoder import SETTINGS, TextEncoder, Vectors, load_encoder
from purlin.index.encoder.ensemble import (
    PROJECTION,
    EnsembleEncoder,
    EnsembleSettings,
)
from purlin.index.errors import InvalidInput
from purlin.training.config import check_ranges, in_range, ranged, refuse_unfit_parts
from purlin.training.data.pairs import augment
from purlin.training.data.pairs.loading import load_pairs
from purlin.training.data.pairs.pair import Pair, PairSource
from purlin.training.dev import DevSet, check_recipe, encoder_measures, read_dev_set
from purlin.training.exporting.directory import file_digests, replacing_directory, write_settings
from purlin.training.exporting.model_card import CARD, FINGERPRINT, Card, markdown_list


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """An encoder's directory, and its share of the score."""

    encoder: Path
    share: float

    def __post_init__(self) -> None:
        in_range("share", self.share, 1e-6, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsembleRecipe:
    """All that decides an ensemble.

    The cosine of two texts is about the mean of the parts' cosines by their shares, which add up to
    1. The parts lie in one directory, where the ensemble is written. The dimensions are chosen on a
    `sample` of pairs, drawn from the sources by their weights; pairs that resemble a text of
    `exclude`, which are evaluation sets, are left out.
    """

    name: str
    parts: tuple[Part, ...]
    pairs: tuple[PairSource, ...]
    exclude: tuple[Path, ...] = ()
    dev: tuple[DevSet, ...] = ()
    dim: int = ranged(384, 1, 4096)
    sample: int = ranged(10_000, 2, 1 << 24)
    forms: augment.Forms = field(default_factory=augment.Forms)
    limits: tuple[str, ...] = ()
    seed: int = 1

    def __post_init__(self) -> None:
        check_ranges(self)
        check_recipe(self.name, self.seed, self.pairs, self.dev, losses=False)
        refuse_unfit_parts(self.name, [(part.encoder, part.share) for part in self.parts])


def make_ensemble(recipe: EnsembleRecipe, *, say: Callable[[str], None]) -> Path:
    """Fit an ensemble and export it beside its parts; return its encoder directory.

    `say` is called with a line of text now and then. Raises InvalidInput, and whatever opening the
    parts raises.
    """
    parts = [load_encoder(part.encoder) for part in recipe.parts]
    joined_dim = sum(part.dim for part in parts)
    if recipe.dim > joined_dim:
        raise InvalidInput(
            f"dim is {recipe.dim}; the parts have {joined_dim} together.", field="dim"
        )

    sources, report = load_pairs(recipe.pairs, recipe.exclude)
    say(str(report))
    queries, passages = zip(*draw(sources, recipe), strict=True)
    say(f"{len(queries):,} pairs are encoded by {', '.join(part.name for part in parts)}")
    sample = np.concatenate(
        [
            np.hstack([part.encode(queries, role="query") for part in parts]),
            np.hstack([part.encode(passages, role="passage") for part in parts]),
        ]
    )
    shares = [part.share for part in recipe.parts]
    projection = fit(sample, np.repeat(shares, [part.dim for part in parts]), recipe.dim)

    encoder = EnsembleEncoder(_settings(recipe, parts, {PROJECTION: ""}), parts, projection)
    measures = encoder_measures([(each, read_dev_set(each)) for each in recipe.dev], encoder)
    out = recipe.parts[0].encoder.parent / recipe.name
    export_ensemble(recipe, parts, projection, measures, out)
    return out


def draw(sources: Sequence[Sequence[Pair]], recipe: EnsembleRecipe) -> list[tuple[str, str]]:
    """Draw query and passage of about `sample` pairs, from each source as many as its weight says."""
    rng = random.Random(recipe.seed)
    counts = [
        len(pairs) * source.weight for pairs, source in zip(sources, recipe.pairs, strict=True)
    ]

    texts = []
    for pairs, count in zip(sources, counts, strict=True):
        number = min(len(pairs), math.ceil(recipe.sample * count / sum(counts)))
        texts += [augment.draw(pair, recipe.forms, rng) for pair in rng.sample(pairs, number)]

    return texts


def fit(sample: Vectors, shares: NDArray[np.float64], dim: int) -> NDArray[np.float32]:
    """Return the matrix (all, dim) for joined vectors (texts, all), with the share of each number.

    A number is weighted by the root of its part's share, so that the product of two texts has the
    share itself.
    """
    roots = np.sqrt(shares)
    weighted = sample.astype(np.float64) * roots
    # Eigenvectors of the second moments, the largest eigenvalue last.
    components = np.linalg.eigh(weighted.T @ weighted)[1][:, ::-1][:, :dim]
    projection: NDArray[np.float32] = (roots[:, None] * components).astype(np.float32)
    return projection


def export_ensemble(
    recipe: EnsembleRecipe,
    parts: Sequence[TextEncoder],
    projection: NDArray[np.float32],
    measures: dict[str, float],
    out: Path,
) -> EnsembleEncoder:
    """Write the ensemble's directory `out`, replacing it; its parts lie beside it."""
    with replacing_directory(out) as new:
        np.save(new / PROJECTION, projection)
        settings = _settings(recipe, parts, file_digests(new, [PROJECTION]))
        shares = {part.encoder.name: part.share for part in recipe.parts}
        write_settings(new / SETTINGS, settings, {"shares": shares, "measures": measures})
        (new / CARD).write_text(_card_text(recipe, measures))
    return EnsembleEncoder.load(out, load_encoder)


def _settings(
    recipe: EnsembleRecipe, parts: Sequence[TextEncoder], files: dict[str, str]
) -> EnsembleSettings:
    fingerprints = {
        part.encoder.name: opened.fingerprint
        for part, opened in zip(recipe.parts, parts, strict=True)
    }
    return EnsembleSettings("ensemble", recipe.name, recipe.dim, fingerprints, files)


def _card_text(recipe: EnsembleRecipe, measures: dict[str, float]) -> str:
    parts = markdown_list(
        f"[{part.encoder.name}](../{part.encoder.name}/README.md): {part.share:g} of the score"
        for part in recipe.parts
    )
    return Card(recipe.name, base_model="", measures=measures, limits=recipe.limits).text(
        "An encoder for Purlin that joins the vectors of others: `projection.npy` turns them, put in a row, into "
        f"{recipe.dim} components, which are scaled to length 1. It has the licences, training data and limits of its "
        f"parts, which must lie beside this directory. {FINGERPRINT}",
        sections={"Parts": parts},
    )
