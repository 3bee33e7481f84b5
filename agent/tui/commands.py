"""The commands that only a screen can carry out."""

from __future__ import annotations

from collections.abc import Callable

from agent.commands.base import Answer, Command, Registry
from agent.commands.general import help_command

KEYS = """Enter send · Shift+Enter or Ctrl+J newline · Esc stop the turn · Ctrl+C clear, twice quits
Up/Down what you said before · Shift+Tab permission mode · Ctrl+O unfold all · PageUp/PageDown scroll
While it works: Enter steers after the current tool, Alt+Enter queues, Up in an empty line takes back what waits
Tab completes · @ mentions a file or an MCP server's resource · Ctrl+G your editor
"""


def screen_commands(
    registry: Registry, leave: Callable[[int], None], copy: Callable[[], Answer], edit: Callable[[], None]
) -> tuple[Command, ...]:
    async def do_copy(_argument: str) -> Answer:
        return copy()

    async def do_edit(_argument: str) -> Answer:
        edit()
        return None

    async def do_leave(_argument: str) -> Answer:
        leave(0)
        return None

    return (
        help_command(registry, KEYS),
        Command("copy", "the last answer to the clipboard", do_copy),
        Command("editor", "write the message in your editor (Ctrl+G)", do_edit),
        Command("quit", "end the program", do_leave, aliases=("exit",)),
    )
