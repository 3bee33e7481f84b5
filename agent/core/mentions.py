"""What the user's message mentions by `@name`: found in the words, shown as the model's own tools would show it, and
said behind the message. Knows no files and no servers; what cannot be shown stays as it was written."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from agent.events import Notice
from agent.messages import ToolOutput
from agent.protocols import Mentionable, Offered, Tool

ROOM = 80_000  # characters that mentions may add to one message; the model reads the rest itself
MOST = 20  # mentions of one message; more is a pasted text
OFFERED = 50  # of one completion

_BEFORE = r"(?:(?<=[\s(\[{])|\A)@"  # not behind a letter (an e-mail address) or a quote (an import)
_MENTION = re.compile(_BEFORE + r"""(?:"([^"\n]+)"|([^\s"'`<>|]+))""")
_OPEN = re.compile(_BEFORE + r"""(?:"([^"\n]*)|([^\s"'`<>|]*))\Z""")
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_TRAILING = ".,;:!?)]}…'*_"
_FILE = re.compile(r".*\w\.[A-Za-z0-9]{1,5}|.*/.*", re.DOTALL)
_CODE_BELOW = re.compile(  # a word alone on its line above one of these is a decorator or an annotation
    r"[ \t]*\n\s*(?:@|(?:async|def|class|export|public|private|protected|static|final|abstract|function|fun)\b)"
)


@dataclass(frozen=True, slots=True)
class Beside:
    """What goes with a message: `text` for the model, `said` for the user."""

    text: str = ""
    said: tuple[Notice, ...] = ()


NOTHING = Beside()


@dataclass(frozen=True, slots=True)
class Mention:
    """`names`: what may be meant, the longest first: a sign at the end may belong to the sentence. `certain`: it can
    only be meant as a mention, so that the user hears when there is nothing of that name."""

    names: tuple[str, ...]
    certain: bool


def mentioned(text: str) -> Iterator[Mention]:
    """In order, each once. Code between backticks mentions nothing."""
    seen: set[str] = set()
    text = _CODE.sub(lambda code: "`" * len(code[0]), text)
    for found in _MENTION.finditer(text):
        quoted, word = found[1], found[2]
        if quoted:
            mention = Mention((quoted,), True)
        elif "/" not in word and _alone(text, found):
            continue
        else:
            names = list(_ending(word))
            mention = Mention(tuple(names), bool(names) and "(" not in word and bool(_FILE.fullmatch(names[-1])))
        if mention.names and mention.names[-1] not in seen:
            seen.add(mention.names[-1])
            yield mention


def _alone(text: str, found: re.Match[str]) -> bool:
    line = text[text.rfind("\n", 0, found.start()) + 1 : found.start()]
    return not line.strip() and bool(_CODE_BELOW.match(text, found.end()))


def _ending(word: str) -> Iterator[str]:
    while any(c.isalnum() for c in word):
        yield word
        if word[-1] not in _TRAILING:
            return
        word = word[:-1]


def being_written(text: str, cursor: int) -> tuple[int, str] | None:
    """Where the mention begins that is being written just before the cursor, and what of its name there is."""
    found = _OPEN.search(text[:cursor])
    return (found.start(), found[1] or found[2] or "") if found else None


def spelled(name: str) -> str:
    """How a name is mentioned."""
    return f"@{name}" if re.fullmatch(r"""[^\s"'`<>|]+""", name) else f'@"{name}"'


class Mentions:
    """`look` shows one thing: as a call of the model would, but in the user's name and without a question."""

    def __init__(self, kinds: Sequence[Mentionable], look: Callable[[Tool, BaseModel], Awaitable[ToolOutput]]) -> None:
        self._kinds = tuple(kinds)
        self._look = look

    async def offers(self, written: str) -> list[Offered]:
        """What may be meant by so much of a name, best first."""
        found = await asyncio.gather(*(kind.offers(written) for kind in self._kinds))
        return [offer for offers in found for offer in offers][:OFFERED]

    async def watched(self, text: str, watch: Callable[[asyncio.Task[Any] | None], None]) -> Beside | None:
        """As `beside`, in a task that `watch` may cancel; None: it was."""
        if "@" not in text:
            return NOTHING
        task = asyncio.get_running_loop().create_task(self.beside(text), name="mentions")
        watch(task)
        await asyncio.wait([task])
        watch(None)
        return None if task.cancelled() else task.result()

    async def beside(self, text: str) -> Beside:
        """Of a message of the user's. May take as long as a server needs to answer."""
        if "@" not in text or not self._kinds:
            return NOTHING
        parts: list[str] = []
        shown: list[str] = []
        faults: list[str] = []
        for n, mention in enumerate(mentioned(text)):
            name, thing = self._find(mention)
            if thing is None:
                faults += [f"There is nothing named {name}."] if mention.certain else []
            elif n >= MOST or sum(map(len, parts)) > ROOM:
                faults.append(f"{name} did not go with the message: it holds enough. The model can read it itself.")
            elif (output := await self._look(*thing)).failed:
                faults.append(f"{name} did not go with the message: {output.text}")
            else:
                parts.append(f"[The user mentions {name}. It holds:]\n{output.text}")
                shown.append(name)
        said = [Notice("info", f"Went with the message: {', '.join(shown)}.")] if shown else []
        return Beside("\n\n".join(parts), (*said, *(Notice("warning", fault) for fault in faults[:MOST])))

    def _find(self, mention: Mention) -> tuple[str, tuple[Tool, BaseModel] | None]:
        for name in mention.names:
            for kind in self._kinds:
                if (thing := kind.find(name)) is not None:
                    return name, thing
        return mention.names[-1], None
