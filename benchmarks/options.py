"""The command lines of benchmarks, whose help is what their modules say of themselves."""

from __future__ import annotations

from argparse import ArgumentParser, RawDescriptionHelpFormatter


def command_parser(text: str | None) -> ArgumentParser:
    """Return a parser that shows `text`, a module's docstring, as it is written."""
    return ArgumentParser(description=text, formatter_class=RawDescriptionHelpFormatter)
