"""`python -m harness` is `agentrig`."""

from harness.cli import main

main()
