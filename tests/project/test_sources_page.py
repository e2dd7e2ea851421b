"""docs/sources.md names every language whose definitions are read."""

from __future__ import annotations

import re

import pytest

from purlin.index.sources.code.languages import LANGUAGES
from purlin.index.sources.code.pattern_languages import PATTERN_LANGUAGES
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "sources.md").read_text()
# Languages that people write otherwise than files' fields have them.
WRITTEN = {"cpp": "c++", "csharp": "c#", "fsharp": "f#", "css": "sass", "vim": "vimscript"}
(CODE,) = re.findall(r"^## Code\n(.*?)^### Other files", PAGE, re.MULTILINE | re.DOTALL)
NAMES = {
    re.sub(r"[^a-z+#]", "", name.lower())
    for name in re.split(r"[,:;()]|\.\s|\band\b|\balso\b|\bin\b|\bof\b|'s\b", CODE)
}


@pytest.mark.parametrize(
    "language", sorted({each.name for each in LANGUAGES} | PATTERN_LANGUAGES.keys())
)
def test_language_is_on_the_page(language: str) -> None:
    assert WRITTEN.get(language, language) in NAMES
