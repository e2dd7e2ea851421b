"""The reader that is trained: a cross-encoder that finds answers."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor
from torch.nn import functional as F

from purlin.index.errors import InvalidInput
from purlin.training.cross_encoder import PAIRS_PER_GROUP, CrossEncoder
from purlin.training.models.padding import in_groups
from purlin.training.models.pretrained import base_path
from purlin.training.models.restore import HEAD
from purlin.training.models.settings import ModelSettings
from purlin.training.models.text_model import BertLike, load_text_model

HIDDEN = -1e9  # the logit of a token that cannot be part of an answer


class ReaderModel(CrossEncoder):
    """A cross-encoder with start, end and selection logits on every token."""

    def __init__(self, text_model: BertLike) -> None:
        super().__init__(text_model, 3)

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Return start logits (n, t), end logits (n, t) and selection logits (n,).

        `ids` and `mask` are (n, t). A passage is selected by its sequence's first token.
        """
        logits = self.head(self.states(ids, mask)).float()
        return logits[..., 0], logits[..., 1], logits[:, 0, 2]

    def grouped(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return `forward`'s logits, computed in groups of similar length, which saves padding."""

        def read_group(group_ids: Tensor, group_mask: Tensor) -> tuple[Tensor, ...]:
            starts, ends, selected = self(group_ids, group_mask)
            # A group is only as wide as its longest text: its logits are padded to the full width.
            missing = (0, ids.shape[1] - group_ids.shape[1])
            padded_starts = F.pad(starts, missing, value=HIDDEN)
            return padded_starts, F.pad(ends, missing, value=HIDDEN), selected

        starts, ends, selected = in_groups(read_group, ids, mask, PAIRS_PER_GROUP)
        return starts, ends, selected


def load_reader_model(
    settings: ModelSettings, directory: Path | None = None, *, new_head: bool = True
) -> ReaderModel:
    """Load the base model, or what `save` wrote to `directory`.

    The head is new unless the base is a reader, be it one of DPR's. Without `new_head`, a base that is
    not a reader is refused with InvalidInput. Also raises InvalidInput for a base that is not BERT-like,
    Damaged for a head that cannot be read, and whatever
    `purlin.training.models.text_model.load_text_model` raises.
    """
    text_model = load_text_model(settings, directory, decoder=False)
    if not isinstance(text_model, BertLike):
        raise InvalidInput("A reader needs a BERT-like base model.", field="base")

    reader = ReaderModel(text_model)
    source = directory or Path(base_path(settings.base))
    if directory is not None or (source / HEAD).is_file():
        reader.load_head(source)
    elif text_model.answer_head is not None:
        reader.head.load_state_dict(text_model.answer_head)
    elif not new_head:
        raise InvalidInput(
            f"{settings.base} is not a reader: it has no {HEAD}. Give the checkpoint of a reader, an "
            "exported one, or one of DPR's.",
            field="base",
        )
    return reader
