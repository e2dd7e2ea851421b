"""The settings of a reader, `reader.json` in its directory: of one model, or of several joined."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from purlin.index.encoder.exported import MODEL, TOKENIZER, check_parts, fingerprint_of, settings_of

READER_SETTINGS = "reader.json"
# A constant and the weights of all features, or of all but the last, which earlier readers lack.
CALIBRATION_SIZES = (5, 6)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderSettings:
    """The content of `reader.json`; `files` has the SHA-256 (hex) of model and tokenizer.

    `prior_weight` is the weight of a passage's prior, beside `purlin.index.qa.features.SPAN_WEIGHTS`.
    The probability that the corpus has an answer is the logistic function of `calibration`: a
    constant, then the weights of `purlin.index.qa.features.calibration_features`; without the last
    weight, its feature counts nothing.
    """

    name: str
    max_tokens: int
    prior_weight: float
    calibration: tuple[float, ...]
    files: dict[str, str]

    @property
    def fingerprint(self) -> str:
        """SHA-256 (hex) over everything that changes an answer."""
        return fingerprint_of(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsembleReaderSettings(ReaderSettings):
    """The content of `reader.json` of an ensemble of readers, which has no `files` of its own.

    `parts` maps the name of each reader to its fingerprint; it lies beside the ensemble, in a directory
    of its name. `shares` maps the names to the weights of the readers' logits, which add up to 1.
    """

    parts: dict[str, str]
    shares: dict[str, float]


def parse_settings(content: Any) -> ReaderSettings:
    """Check the content of `reader.json`. Raises ValueError or KeyError, for `read_exported`."""
    kind = EnsembleReaderSettings if "parts" in content else ReaderSettings
    calibration = tuple(map(float, content["calibration"]))
    settings = settings_of(kind, {**content, "calibration": calibration})

    files = set() if isinstance(settings, EnsembleReaderSettings) else {MODEL, TOKENIZER}
    is_valid = len(settings.calibration) in CALIBRATION_SIZES and 16 <= settings.max_tokens <= 8192
    if not is_valid or set(settings.files) != files:
        raise ValueError("its values do not fit together")

    for name, numbers in (
        ("prior_weight", [settings.prior_weight]),
        ("calibration", settings.calibration),
    ):
        if not all(map(math.isfinite, numbers)):
            raise ValueError(f"its {name} is not a finite number")

    if isinstance(settings, EnsembleReaderSettings):
        check_parts(settings.name, settings.parts)
        _check_shares(settings)
    return settings


def _check_shares(settings: EnsembleReaderSettings) -> None:
    shares = settings.shares
    if set(shares) != set(settings.parts):
        raise ValueError("its shares are of other readers than its parts")
    if not all(0 < share <= 1 for share in shares.values()):
        raise ValueError("a share is not above 0 and at most 1")
    if not math.isclose(sum(shares.values()), 1.0, abs_tol=1e-6):
        raise ValueError("its shares do not add up to 1")


def check_part_settings(
    settings: EnsembleReaderSettings, parts: Mapping[str, ReaderSettings]
) -> None:
    """Raise ValueError unless the parts are the ensemble's own and all read the same tokens."""
    first, *_ = parts.values()

    for name, part in parts.items():
        if part.fingerprint != settings.parts[name]:
            raise ValueError(f"its part {name} is another reader than it was made with")

        if isinstance(part, EnsembleReaderSettings):
            raise ValueError(f"its part {name} is an ensemble itself: name the parts of that")

        if (
            part.files[TOKENIZER] != first.files[TOKENIZER]
            or part.max_tokens != settings.max_tokens
        ):
            raise ValueError(
                f"its part {name} does not read the same tokens as the others: take readers of one "
                "tokenizer and one max_tokens"
            )
