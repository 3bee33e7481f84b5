"""`dflash-agent mcp`: the servers that are configured, outside of any conversation."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.config.foreign import mapping
from agent.config.mcp import Configured, Entry, entry_of, read_configured
from agent.config.mcp_add import SCOPES, AddScope, drop_server, parse_add, write_servers
from agent.config.trust import Trust
from agent.errors import ConfigError
from agent.mcp_servers import McpTrial
from agent.speech import harmless

Try = Callable[[Entry, Callable[[str], None], McpTrial], Awaitable[bool]]
NONE = "No MCP servers are configured. `dflash-agent mcp add NAME -- COMMAND` adds one, `mcp new NAME` writes one."


@dataclass(frozen=True, slots=True)
class Bench:
    """`write`: text for stdout, `tell`: one line for stderr. `attempt` runs a trial of a server."""

    folder: Path
    config: Path
    trust: Trust
    write: Callable[[str], None]
    tell: Callable[[str], None]
    attempt: Try
    write_server: Callable[[str], tuple[Path, Mapping[str, Any]]]

    def configured(self) -> Configured:
        return read_configured(self.folder, self.config)


def add(bench: Bench, words: Sequence[str]) -> int:
    scope, servers = parse_add(words)
    file = write_servers(scope, bench.folder, bench.config, servers)
    for name, raw in servers:
        entry = entry_of(name, raw, "project" if scope == "project" else "user", file)
        if scope == "project":
            bench.trust.settle(entry.thing, allowed=True)  # who adds it wants it; others of the project are asked
        bench.write(f"Added {name} ({scope}: {file}): {entry.target}\n")
        bench.write(f"`dflash-agent mcp test {name}` tries it; a running conversation gets it when it begins anew.\n")
    return 0


async def new(bench: Bench, name: str) -> int:
    """Writes a server, registers it in the project, and calls each of its tools."""
    if bench.configured().find(name):
        raise ConfigError(f"There is an MCP server {name} already.")
    file, raw = bench.write_server(name)
    source = write_servers("project", bench.folder, bench.config, [(name, raw)])
    bench.trust.settle(entry_of(name, raw, "project", source).thing, allowed=True)
    bench.write(f"Wrote {file} and its tests, registered {name} in {source}.\n")
    code = await test(bench, [name], McpTrial(every=True))
    bench.write("Change it as you like: a running dflash-agent takes the new text when the file is saved.\n")
    return code


def remove(bench: Bench, name: str, scope: str | None) -> int:
    places: Sequence[AddScope] = [s for s in SCOPES if scope in (None, s)]
    entries = [e for e in (*bench.configured().entries, *bench.configured().hidden) if e.name == name]
    found: list[AddScope] = [s for s in places if any(e.scope == s for e in entries)]
    if not found:
        raise ConfigError(f"There is no MCP server {name!r}{f' in the scope {scope}' if scope else ''}.")
    if len(found) > 1:
        raise ConfigError(f"{name} is in the scopes {', '.join(found)}; say which with --scope.")
    file = drop_server(found[0], bench.folder, bench.config, name)
    bench.write(f"Removed {name} from {file}.\n")
    return 0


def show_all(bench: Bench, *, as_json: bool) -> int:
    found = bench.configured()
    for fault in found.faults:
        bench.tell(fault)
    if as_json:
        bench.write(json.dumps({"servers": [_plain(bench, e) for e in found.entries]}, indent=1) + "\n")
        return 0
    if not found.entries:
        bench.write(f"{NONE}\n")
    width = max((len(e.name) for e in found.entries), default=0)
    for entry in found.entries:
        bench.write(harmless(f"{entry.name:<{width}}  {entry.scope:<7}  {_state(bench, entry)}{entry.target}") + "\n")
    for entry in found.hidden:
        bench.write(f"{entry.name:<{width}}  {entry.scope:<7}  hidden by the nearer one\n")
    return 0


def show(bench: Bench, name: str, *, as_json: bool) -> int:
    entry = _named(bench, name)
    if as_json:
        bench.write(json.dumps(_plain(bench, entry), indent=1) + "\n")
        return 0
    lines = [
        f"{entry.name} ({entry.scope}: {entry.source})",
        f"  {entry.transport}: {_state(bench, entry)}{entry.target}",
        f"  env: {', '.join(entry.env) or 'nothing of its own'}" if not entry.url else "",
        f"  headers: {', '.join(entry.headers) or 'none'}" if entry.url else "",
        f"  time: {entry.start_timeout:g} s to start, {entry.call_timeout:g} s for a call without progress",
        f"  only these tools: {', '.join(entry.include)}" if entry.include is not None else "",
        f"  without these tools: {', '.join(entry.exclude)}" if entry.exclude else "",
    ]
    bench.write(harmless("\n".join(line for line in lines if line)) + "\n")
    return 0


async def test(bench: Bench, names: Sequence[str], wish: McpTrial) -> int:
    """All of them where none is named; 1 when one of them did not work."""
    entries = [_named(bench, n) for n in names] or [e for e in bench.configured().entries if e.enabled]
    if not entries:
        bench.write(f"{NONE}\n")
    fine = True
    for entry in entries:
        bench.write(f"{entry.name}\n")
        if entry.scope == "project" and not names and not bench.trust.allows(entry.thing):
            bench.write("– not started: it came with the project and is not approved; name it to try it\n")
            continue
        fine = await bench.attempt(entry, lambda line: bench.write(harmless(line) + "\n"), wish) and fine
    return 0 if fine else 1


def trial_of(tool: str | None, arguments: str | None, *, every: bool) -> McpTrial:
    """Raises ConfigError for arguments that are no JSON object."""
    given: Any = {}
    if arguments is not None:
        try:
            given = json.loads(arguments)
        except ValueError as error:
            raise ConfigError(f"The arguments are not JSON: {error}.") from error
        if not isinstance(given, dict):
            raise ConfigError("The arguments must be a JSON object.")
    return McpTrial(tool or "", mapping(given), every)


def _named(bench: Bench, name: str) -> Entry:
    found = bench.configured()
    entry = found.find(name)
    if entry is None:
        known = ", ".join(e.name for e in found.entries) or "none"
        raise ConfigError(f"There is no MCP server {name!r}; configured: {known}.")
    return entry


def _state(bench: Bench, entry: Entry) -> str:
    if entry.fault:
        return f"cannot be used: {entry.fault}; "
    if not entry.enabled:
        return "off; "
    if entry.scope == "project" and not bench.trust.allows(entry.thing):
        return "refused; " if bench.trust.verdict(entry.thing) == "refused" else "not approved yet; "
    return ""


def _plain(bench: Bench, entry: Entry) -> Mapping[str, Any]:
    return {
        "name": entry.name,
        "scope": entry.scope,
        "source": str(entry.source),
        "transport": entry.transport,
        "target": entry.target,
        "enabled": entry.enabled,
        "approved": entry.scope != "project" or bench.trust.allows(entry.thing),
        "env": sorted(entry.env),
        "headers": sorted(entry.headers),
        "fault": entry.fault or None,
    }
