"""What a server may ask of us, and what an open connection to one can do. Plain data and protocols between the pool,
which knows no library, and `link`, which knows nothing else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from agent.config.mcp import Entry, Launch
from agent.tools.mcp.catalogue import Catalogue

Listed: TypeAlias = Literal["tools", "prompts", "resources"]


@dataclass(frozen=True, slots=True)
class Elicitation:
    """A server wants something from the user: a form (`schema`: flat JSON Schema), or a visit to `url`."""

    server: str
    message: str
    schema: Mapping[str, Any] = field(default_factory=dict[str, Any])
    url: str = ""


@dataclass(frozen=True, slots=True)
class Elicited:
    action: Literal["accept", "decline", "cancel"]
    content: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Sampling:
    """A server wants the model to answer: `messages` as (role, text)."""

    server: str
    messages: Sequence[tuple[str, str]]
    system: str
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Sampled:
    """`cut`: it reached its limit. `model`: who answered, as far as that is known."""

    text: str
    model: str = ""
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Host:
    """`folders`: the roots that servers hear of. `elicit` None: nobody is there to fill in a form, and servers are told
    so. `sample` likewise; it raises Fault, of the kind `refused` when the user does not want it. `env`: the user's
    environment."""

    folders: tuple[Path, ...]
    env: Mapping[str, str] = field(repr=False)
    logs: Path
    version: str
    elicit: Callable[[Elicitation], Awaitable[Elicited]] | None = None
    sample: Callable[[Sampling], Awaitable[Sampled]] | None = None


class Link(Protocol):
    """An open connection. All that fails raises Fault."""

    async def catalogue(self) -> Catalogue: ...
    async def call(
        self, tool: str, arguments: Mapping[str, Any], patience: float, say: Callable[[str], None]
    ) -> Mapping[str, Any]:
        """The result in the protocol's own JSON. `patience`: seconds without an answer or progress."""
        ...

    async def resources(self) -> list[Mapping[str, Any]]:
        """Resources and resource templates, in the protocol's own JSON."""
        ...

    async def read(self, uri: str) -> list[Mapping[str, Any]]: ...
    async def prompts(self) -> list[Mapping[str, Any]]: ...
    async def prompt(self, name: str, arguments: Mapping[str, str]) -> list[Mapping[str, Any]]: ...
    async def complete(self, prompt: str, argument: str, written: str, known: Mapping[str, str]) -> list[str]: ...
    async def serve(self, changed: Callable[[Listed], Awaitable[None]]) -> None:
        """Returns or raises once the connection is lost; meanwhile tells of changed lists."""
        ...

    def lose(self) -> None:
        """Ends `serve`: the server no longer knows us."""
        ...


@dataclass(slots=True)
class Birth:
    """What is known of a connection from outside, whether it came up or not. `phase`: what it was doing last."""

    phase: str = ""
    status: int | None = None
    words: Sequence[str] = ()
    pid: int | None = None


Connect: TypeAlias = Callable[[Entry, Launch, Host, Birth, "Auth | None"], AbstractAsyncContextManager[Link]]
Auth: TypeAlias = Any  # of the HTTP library
