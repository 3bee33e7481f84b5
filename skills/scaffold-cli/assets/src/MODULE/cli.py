"""The command line: reads arguments, calls the code that does the work, turns errors into exit codes."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from MODULE import __version__
from MODULE.core import CommandError, count_lines

EXIT_OK, EXIT_FAILED = 0, 1  # argparse itself ends with 2 for wrong use


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="NAME", description="What it does, in one sentence.")
    parser.add_argument("--version", action="version", version=f"NAME {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    lines = commands.add_parser("lines", help="count the lines of a file")
    lines.add_argument("file", type=Path)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    arguments = build_parser().parse_args(argv)
    try:
        if arguments.command == "lines":
            print(count_lines(arguments.file))
    except CommandError as error:
        print(f"NAME: {error}", file=sys.stderr)
        return EXIT_FAILED
    return EXIT_OK
