"""Where the repository and the tests' own material are."""

from pathlib import Path

TESTS = Path(__file__).parents[1]
DATA = TESTS / "data"
ROOT = TESTS.parent
