"""The commands that only a screen can carry out, and what the composer offers of all commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agent.commands.base import Answer, Command, Registry
from agent.commands.general import help_command
from agent.tui.completion import Offer

KEYS = """Enter send · Shift+Enter or Ctrl+J newline · Esc stop the turn · Ctrl+C clear, twice quits
Up/Down what you said before · Shift+Tab permission mode · Ctrl+O unfold all · PageUp/PageDown scroll
While it works: Enter steers after the current tool, Alt+Enter queues, Up in an empty line takes back what waits
Tab completes · Ctrl+G your editor · @ mentions a file or an MCP server's resource
!command runs it yourself, and your next message tells the model what it said
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


def command_offers(commands: Registry, text: str, cursor: int) -> Sequence[Offer]:
    """What a line that begins with `/` may become."""
    if not text.startswith("/") or "\n" in text or cursor < len(text):
        return ()

    def is_final(line: str) -> bool:
        command = commands.find(line[1:].partition(" ")[0])
        return (" " in line and "=" not in line) or command is None or not command.usage

    found = [(line, about) for line, about in commands.completions(text) if line != text]
    offers = [Offer(0, len(text), line, about, is_final(line), line.endswith("=")) for line, about in found]
    if offers and (whole := commands.find(text[1:])):  # Enter runs what is written, not what begins like it
        offers.insert(0, Offer(0, len(text), text, whole.summary, is_final(text)))
    return offers
