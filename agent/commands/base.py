"""What a slash command is, and all of them together. One implementation of each serves every front end; what needs a
screen to make sense is added by the screen itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

Level: TypeAlias = Literal["info", "warning", "error"]
Tone: TypeAlias = Literal["", "faint", "bold", "accent", "good", "warn", "bad"]
Line: TypeAlias = Sequence[tuple[str, Tone]]  # pieces of one row of text; tones are decoration, never the message
PLAIN_WIDTH = 100  # columns, where nobody knows how wide it will be read


@dataclass(frozen=True, slots=True)
class Said:
    """What a command answers the user; the model never sees it. `text` may have several lines. `draw`: the same as rows
    of at most so many columns, for what is laid out; `text` is then its plain form. `shown`: the screen has it from an
    event already."""

    text: str
    level: Level = "info"
    draw: Callable[[int], Sequence[Line]] | None = None
    shown: bool = False

    @classmethod
    def drawn(cls, draw: Callable[[int], Sequence[Line]]) -> Said:
        return cls("\n".join("".join(t for t, _ in line).rstrip() for line in draw(PLAIN_WIDTH)), draw=draw)


@dataclass(frozen=True, slots=True)
class Diff:
    """A unified diff for the user."""

    text: str


@dataclass(frozen=True, slots=True)
class Ask:
    """A message to the model, sent in the user's place. `shown`: what the user sees of it; empty: all. `allowed`: the
    tools its turn keeps to, as in `core/narrowing`; empty for all. `points`: what is to be done."""

    text: str
    shown: str = ""
    allowed: tuple[str, ...] = ()
    points: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Open:
    """Another session takes this one's place; None: a new one."""

    session_id: str | None


Answer: TypeAlias = Said | Diff | Ask | Open | None
Completions: TypeAlias = Sequence[str] | Sequence[tuple[str, str]]  # arguments, or each with what it is


def nothing(_written: str) -> Completions:
    return ()


def unchanged() -> None:
    pass


async def all_there(_name: str) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Command:
    """`run` gets what stands behind the name, stripped; it raises AgentError for what cannot be done. `usage`: how the
    argument is written (`[focus]`, `on|off`). `headless`: makes sense without a screen. `complete`: whole arguments
    that may be meant by what is written so far."""

    name: str
    summary: str
    run: Callable[[str], Awaitable[Answer]]
    usage: str = ""
    aliases: tuple[str, ...] = ()
    headless: bool = False
    complete: Callable[[str], Completions] = nothing

    @property
    def title(self) -> str:
        also = f" (={', '.join('/' + a for a in self.aliases)})" if self.aliases else ""
        return f"/{self.name}{' ' + self.usage if self.usage else ''}{also}"


class Registry:
    """Commands by name, in the order they were added. A name that is taken stays: the first one wins. `changed` is
    called when there is more or less to offer than before; `coming` waits for what may still bring a command."""

    def __init__(self, commands: Iterable[Command] = ()) -> None:
        self.changed: Callable[[], None] = unchanged
        self.coming: Callable[[str], Awaitable[None]] = all_there
        self._commands: dict[str, Command] = {}
        self._aliases: dict[str, str] = {}
        self.add(*commands)

    def add(self, *commands: Command) -> None:
        for command in commands:
            if command.name not in self._commands:
                self._commands[command.name] = command
                self._aliases |= {a: command.name for a in command.aliases if a not in self._aliases}

    def remove(self, name: str) -> None:
        """Its aliases with it. A name that is not there is no error."""
        self._commands.pop(name, None)
        self._aliases = {a: n for a, n in self._aliases.items() if n != name}

    def __iter__(self) -> Iterator[Command]:
        return iter(tuple(self._commands.values()))

    def find(self, name: str) -> Command | None:
        return self._commands.get(name) or self._commands.get(self._aliases.get(name, ""))

    async def arriving(self, name: str) -> Command | None:
        """As `find`, also where the command is still on its way."""
        if self.find(name) is None:
            await self.coming(name)
        return self.find(name)

    def read(self, line: str) -> tuple[Command | None, str, str] | None:
        """The command a message is, its name as written and its argument; None where the message is none. A path or
        several lines behind an unknown name are a message; a lone unknown name is taken for a slip."""
        text = line.strip()
        if not text.startswith("/"):
            return None
        name, rest = _split(text[1:])
        if not name or "/" in name:
            return None
        command = self.find(name)
        if command is None and "\n" in text:
            return None
        return command, name, rest

    def completions(self, written: str) -> list[tuple[str, str]]:
        """(whole line, what it does) for a line that begins with `/`."""
        name, space, rest = written[1:].partition(" ")
        if space:
            command = self.find(name)
            found = command.complete(rest) if command else ()
            pairs = [(one, "") if isinstance(one, str) else one for one in found]
            return [(f"/{name} {argument}", about) for argument, about in pairs]
        commands = sorted(self, key=lambda c: not c.name.startswith(name))
        return [(f"/{c.name}", c.summary) for c in commands if _matches(name, c)]


def _split(text: str) -> tuple[str, str]:
    parts = text.split(None, 1)
    if not parts or text[0].isspace():
        return "", ""
    return parts[0], parts[1].strip() if len(parts) > 1 else ""


def _matches(written: str, command: Command) -> bool:
    return any(name.startswith(written) for name in (command.name, *command.aliases)) or (
        len(written) > 1 and written in command.name
    )
