"""Lines of files that are in no document: they stand beside the next one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.code_documents import documents
from tests.support.files import write_tree

JAVASCRIPT = """\
'use strict';

const path = require('path');

/**
 * Lights the lamp.
 * @returns {boolean}
 */
export function light(lamp) {
  return lamp.on();
}

class Lamp {
  /** Dims it. */
  dim() {
    return 1;
  }

  off() { return 0; } // at once
}

export default Lamp
"""
GO = """\
package lamps

import (
\t"fmt"
)

const most = 3

// Open opens.
func Open() { fmt.Println(most) }

func Close() {} // nothing to do
"""
C = """\
/* Copyright (c) 2026 */
#ifdef LAMPS
namespace lamps {
int dim(int by)
{
    return by;
}
}
#endif
"""
MARKDOWN = """\
# Lamps

## Bright ones

They shine.
"""
BY_NAME = {"lamp.js": JAVASCRIPT, "lamp.go": GO, "lamp.cpp": C, "LAMPS.md": MARKDOWN}


@pytest.mark.parametrize("name", BY_NAME)
def test_every_line_of_a_file_is_in_a_document_or_around_one(tmp_path: Path, name: str) -> None:
    kept = documents(write_tree(tmp_path, {name: BY_NAME[name]}), content="all")
    lines = {line.strip() for document in kept for line in document.body.split("\n")}
    numbered = {
        (number, line)
        for document in kept
        for first, block in document.around
        for number, line in enumerate(block.split("\n"), first)
    }

    for number, line in enumerate(BY_NAME[name].split("\n"), 1):
        assert not line.strip() or line.strip() in lines or (number, line) in numbered


def test_lines_are_around_the_next_document_and_the_last_ones_around_the_last(
    tmp_path: Path,
) -> None:
    around = {
        document.title: document.around
        for document in documents(write_tree(tmp_path, {"lamp.js": JAVASCRIPT}))
        if document.around
    }
    head = "'use strict';\n\nconst path = require('path');\n\n/**\n * Lights the lamp.\n * @returns {boolean}\n */"
    assert around["light"][0][:1] == (1,)
    assert around["light"][0][1].startswith(head)
    assert around["Lamp.dim"] == ((14, "  /** Dims it. */"),)
    # The class has the whole line of this method, with its comment.
    assert around["Lamp.off"] == ((22, "export default Lamp"),)


def test_a_file_without_documents_is_nothing_to_stand_around(tmp_path: Path) -> None:
    assert documents(write_tree(tmp_path, {"empty.md": "# Lamps\n"}), content="docs") == []
