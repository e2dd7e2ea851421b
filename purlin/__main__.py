"""`python -m purlin`."""

from purlin.cli import main

main()
