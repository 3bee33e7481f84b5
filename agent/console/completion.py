"""Tab in the user's shell, by argcomplete: the shell runs this program, which answers from its own parsers."""

from __future__ import annotations

import argparse
import os

import argcomplete
from argcomplete.shell_integration import shellcode

from agent.console.arguments import COMMANDS


def shell_code(shell: str) -> str:
    return shellcode(["dflash-agent"], shell=shell) + "\n"


def complete(root: argparse.ArgumentParser, commands: argparse.ArgumentParser) -> None:
    """Answers and ends the process when a shell has asked; else returns."""
    words = os.environ.get("COMP_LINE", "").split()
    if len(words) > 1 and words[1] in COMMANDS:
        argcomplete.autocomplete(commands)
    for action in root._actions:
        if action.dest == "prompt":
            action.completer = lambda **_: COMMANDS  # type: ignore[attr-defined]
    argcomplete.autocomplete(root)
