"""What MCP servers offer besides tools: resources that a message may mention, and prompts as slash commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from agent.commands.base import Registry
from agent.commands.prompts import prompt_command
from agent.core.forms import Filled
from agent.core.session import Session
from agent.forms import Form
from agent.mcp_servers import McpPrompt
from agent.tools.mcp.host import Listed
from agent.tools.mcp.pool import Pool
from agent.tools.mcp.prompts import Prompts
from agent.tools.mcp.resources import Resources
from agent.tools.mcp.results import Results
from agent.tools.mcp.server import McpServer


class Offerings:
    """`session`: through which the user can be asked; None: nobody is there."""

    def __init__(self, pool: Pool, results: Results, registry: Registry, session: Callable[[], Session] | None) -> None:
        self.resources = Resources(pool.servers, results)
        self.prompts = Prompts(pool.servers, results, self._listed, lambda: registry.changed())
        self._registry = registry
        self._session = session
        self._known: dict[str, list[str]] = {}  # commands by server
        registry.coming = self.prompts.coming
        pool.offered = self._offered

    def _offered(self, server: McpServer, what: Listed) -> None:
        if what == "resources":
            self.resources.changed(server)
        elif what == "prompts":
            self.prompts.refresh(server)

    def _listed(self, server: str, prompts: Sequence[McpPrompt]) -> None:
        for name in self._known.get(server, ()):
            self._registry.remove(name)
        self._known[server] = [prompt.qualified for prompt in prompts]
        fill = self._fill if self._session else None
        for prompt in prompts:
            get, values = partial(self.prompts.text, prompt), partial(self.prompts.values, prompt)
            self._registry.add(prompt_command(prompt, get, fill, values))
        self._registry.changed()

    async def _fill(self, form: Form) -> Filled:
        assert self._session is not None
        return await self._session().forms.ask(form)

    async def close(self) -> None:
        await self.resources.close()
        await self.prompts.close()
