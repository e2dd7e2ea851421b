"""The command `purlin`, and `python -m purlin`."""

import sys


def main() -> None:
    """Run the command line; Ctrl-C ends it in one line, also while it is being loaded."""
    try:
        from purlin import cli

        cli.main()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
