"""Types of the arrays that a search works on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Numbers of passages, or of documents.
Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]
LexicalScores = NDArray[np.float32]

NO_ROWS: Rows = np.zeros(0, dtype=np.int64)
NO_SCORES: LexicalScores = np.zeros(0, dtype=np.float32)
