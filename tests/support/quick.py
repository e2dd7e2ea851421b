"""Quick commands, run in this process, and the files that they work on."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from purlin import cli

Captured = pytest.CaptureFixture[str]
MAIL = '''def send_receipt(order):
    """Mail the customer a receipt."""
    return smtp(order)
'''
PRICE = "def format_price(cents):\n    return cents / 100\n"
PAGE = """# Sessions

A session is kept for 31 days, unless the visitor leaves before that.
"""
LONG = "def send_all():\n" + "    prepare()\n" * 20 + "    retry_receipt()\n" + "    log()\n" * 20


def purlin(*arguments: object) -> int:
    """Exit status of a command that runs in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["purlin", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            cli.main()
    return int(str(end.value.code))


def records_of(capsys: Captured) -> list[dict[str, Any]]:
    """What the last command has printed with --json."""
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]
