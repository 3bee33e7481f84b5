"""/mcp: which servers there are, how each is, why one is not there, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agent.commands.base import Answer, Command, Said
from agent.commands.table import listed
from agent.errors import ConfigError
from agent.mcp_servers import McpServers, McpState

VERBS = ("new", "restart", "approve", "refuse", "on", "off", "login")
LISTED_WORDS = 2  # last lines of a server that has failed, in the list of all
NONE = (
    "No MCP servers are configured. `dflash-agent mcp add NAME -- COMMAND` adds one, "
    "`dflash-agent mcp new NAME` writes one; a .mcp.json of the project is read too."
)


def mcp_command(servers: Callable[[], McpServers], say: Callable[[str], None]) -> Command:
    """`say`: tells the user something while a command still runs."""

    async def run(argument: str) -> Answer:
        words = argument.split()
        if not words:
            return listed(overview(servers().states()))
        if words[0] not in VERBS:
            return listed(details(_named(servers().states(), argument)))
        if len(words) != 2:
            raise ConfigError(f"/mcp {words[0]} needs the name of one server.")
        if words[0] == "new":
            return Said(made(*await servers().new(words[1]), reachable=servers().reachable))
        return Said(line_of(await _act(words[0], words[1])))

    async def _act(verb: str, name: str) -> McpState:
        match verb:
            case "restart":
                return await servers().restart(name)
            case "login":
                return await servers().login(name, say)
            case "approve" | "refuse":
                return await servers().approve(name, allowed=verb == "approve")
            case _:
                return await servers().switch(name, on=verb == "on")

    def complete(written: str) -> Sequence[str]:
        names = [s.name for s in servers().states()]
        verb, space, _ = written.partition(" ")
        offers = [f"{verb} {n}" for n in names] if space and verb in VERBS else [*names, *VERBS]
        return [o for o in offers if o.startswith(written)]

    usage = f"[name | {'|'.join(VERBS)} name]"
    return Command("mcp", "MCP servers: state, tools, why one failed", run, usage=usage, complete=complete)


def made(file: str, state: McpState, *, reachable: bool) -> str:
    how = (
        "Save it and the new text counts at once." if reachable else "Its tools are there once you begin anew (/clear)."
    )
    return f"{details(state)}\n{file} is yours to change. {how}"


def overview(states: Sequence[McpState]) -> str:
    if not states:
        return NONE
    lines = [line for state in states for line in (line_of(state), *_last(state))]
    listed, tools = sum(s.tokens for s in states), sum(len(s.tools) for s in states)
    total = f"{counted(tools)}; ≈{listed:,} tokens of the tool list are theirs. /mcp NAME says more of one."
    return "\n".join([*lines, total])


def counted(tools: int) -> str:
    return f"{tools} tool{'' if tools == 1 else 's'}"


def line_of(state: McpState) -> str:
    """Its state in one line."""
    return f"{state.kind:<10} {state.name}: {_condition(state)}"


def details(state: McpState) -> str:
    lines = [line_of(state), f"  {state.scope}: {state.target}"]
    if state.era:
        lines.append(f"  {state.title or 'no name'}, protocol {state.era}")
    if state.status is not None:
        lines.append(f"  exit status {state.status}" if state.status >= 0 else f"  ended by signal {-state.status}")
    for tool in state.tools:
        claims = f" ({', '.join(tool.hints)}, it says)" if tool.hints else ""
        where = f"≈{tool.tokens} tokens in the tool list" if tool.listed else "by mcp_call"
        lines.append(f"  {tool.qualified}{claims}, {where}: {tool.summary}")
    if state.words:
        lines += ["  its last lines:", *(f"    {line}" for line in state.words)]
    if state.log and (state.words or state.kind == "failed"):
        lines.append(f"  all of stderr: {state.log}")
    return "\n".join(lines)


def _condition(state: McpState) -> str:
    match state.kind:
        case "ready":
            title = f"{state.title}, " if state.title else ""
            cost = f"≈{state.tokens:,} tokens in the tool list" if state.tokens else "reached by mcp_find and mcp_call"
            return f"{title}{counted(len(state.tools))}, {cost if state.tools else 'none'} ({state.seconds:.1f} s)"
        case "starting":
            return state.phase or "starting"
        case "unapproved":
            return f"it came with the project; /mcp approve {state.name} starts {state.target}"
        case "off":
            return f"/mcp on {state.name} starts it"
        case "login":
            return f"{state.why}; /mcp login {state.name} opens the browser"
        case "failed":
            phase = f" ({state.phase}, {state.seconds:.1f} s)" if state.phase else ""
            again = f"; trying again in {state.again:g} s" if state.again else ""
            return f"{state.why}{phase}{again}"


def _last(state: McpState) -> list[str]:
    return [f"{'':<11}  {line}" for line in state.words[-LISTED_WORDS:]] if state.kind == "failed" else []


def _named(states: Sequence[McpState], name: str) -> McpState:
    for state in states:
        if state.name == name:
            return state
    known = ", ".join(s.name for s in states) or "none"
    raise ConfigError(f"There is no MCP server {name!r}; configured: {known}.")
