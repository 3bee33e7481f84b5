"""`dflash-agent skill`: where skills lie and, for its check, which one a model would choose: the first words of a
session, with nothing done."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from agent.config.paths import Paths
from agent.config.trust import Trust
from agent.console.server import homes
from agent.console.skill import Choose, Place, run
from agent.events import Endpoint
from agent.messages import UserMessage
from agent.model.client import OpenAIModel
from agent.model.repair import read_arguments
from agent.prompt.skillbook import SkillBook
from agent.prompt.skills import Root, slug
from agent.prompt.system import build_system_prompt
from agent.protocols import CallChunk, ModelRequest, Server
from agent.runtime.attached import Attached
from agent.runtime.launch import running
from agent.tools.process import ProcessBook
from agent.tools.registry import build_tools, tool_schemas
from agent.tools.skill import SkillTool
from agent.wiring.skills import home_of, skill_places
from agent.workspace.paths import Workspace

REPLY = 300  # tokens: to think a little, and to call


def run_skill(arguments: argparse.Namespace, paths: Paths, env: Mapping[str, str]) -> int:
    """Raises AgentError."""
    folder = Path.cwd()
    searched = skill_places(folder, paths, env)
    choose: Choose | None = None
    if arguments.verb == "check" and (server := _server_to_ask(arguments.server, paths, env)):
        choose = Trial(server.ensure_ready, folder, searched, paths, env).choose
    place = Place(folder, paths.config, home_of(env))
    return run(arguments, place, searched, Trust(paths.trust), choose)


def _server_to_ask(url: str | None, paths: Paths, env: Mapping[str, str]) -> Server | None:
    """The server of that address, or an engine of this user that runs anyway."""
    if url:
        return Attached(url, env, lambda _: None)
    record = next((r for home in homes(paths) if (r := running(home))), None)
    if record is None:
        return None
    return Attached(f"http://127.0.0.1:{record.port}", {"DFLASH_SERVER_KEY": record.key}, lambda _: None)


class Trial:
    """`places`: where the other skills lie, among which the model has to choose."""

    def __init__(
        self,
        ensure_ready: Callable[[], Awaitable[Endpoint]],
        folder: Path,
        places: tuple[Root, ...],
        paths: Paths,
        env: Mapping[str, str],
    ) -> None:
        self._ensure_ready = ensure_ready
        self._folder = folder
        self._places = places
        self._logs = paths.logs
        self._env = env

    async def choose(self, skill: Path, prompt: str) -> str:
        """The name of the skill the model calls first; empty where it calls none. Raises ModelFault."""
        context = (await self._ensure_ready()).n_ctx or 32_768
        one_more = Root(skill.resolve().parent, "user")
        book = SkillBook((one_more, *self._places), Trust(self._logs / "none", everything=True), lambda: "", context)
        tools = build_tools(
            Workspace(self._folder), self._env, self._logs, ProcessBook(), SkillTool(book, lambda _: False)
        )
        system = build_system_prompt(self._folder, book.introduction())
        request = ModelRequest(system, tool_schemas(tools), (UserMessage("m1", prompt),), REPLY)
        name, arguments = "", ""
        stream = OpenAIModel(self._ensure_ready).stream(request)
        try:
            async for chunk in stream:
                if isinstance(chunk, CallChunk) and chunk.index == 0:
                    name = name or chunk.name
                    arguments += chunk.arguments
        finally:
            await stream.aclose()
        said = read_arguments(arguments).fields if name == SkillTool.name else None
        return slug(str(said.get("name", "")).split(" ")[0]) if said else ""
