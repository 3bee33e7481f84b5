"""`python -P -m agent`: -P keeps a folder named `agent` in the working directory from being imported instead."""

from agent.cli import main

raise SystemExit(main())
