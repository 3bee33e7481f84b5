"""The MCP servers a user has configured: `.mcp.json` as other agents write it, the user's own file, and files named on
the command line. Reads and describes; starts nothing, asks nobody, and never puts a secret into a text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast
from urllib.parse import urlsplit, urlunsplit

from agent.config.foreign import mapping
from agent.config.plainfile import read_text
from agent.config.trust import Thing, digest_of
from agent.errors import ConfigError

Scope: TypeAlias = Literal["flag", "local", "project", "user"]
Transport: TypeAlias = Literal["stdio", "http", "sse"]
Protocol: TypeAlias = Literal["auto", "legacy", "2026-07-28"]

PROJECT_FILE = ".mcp.json"
USER_FILE = "mcp.json"
START_TIMEOUT = 30.0  # seconds; `npx -y package` fetches the package first, 12 s measured by others
CALL_TIMEOUT = 120.0  # seconds without an answer or a sign of progress
TOOL_SHARE = 0.02  # of the context; schemas of a server that take more stay out of the tool list
VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
SECRET = re.compile(r"key|token|secret|passw|credential|auth", re.I)
KINDS: Mapping[str, Transport] = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamable_http": "http",
    "streamableHttp": "http",
    "remote": "http",
    "sse": "sse",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One configured server, its texts as they are written (variables not filled in). `fault`: why it cannot be used
    ("" when it can). Time-outs in seconds. `include` None: all tools. `reload`: it is
    started anew when one of the files in its command line changes. `digest`: of all that decides what it does."""

    name: str
    scope: Scope
    source: Path
    digest: str
    transport: Transport = "stdio"
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cwd: str = ""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    start_timeout: float = START_TIMEOUT
    call_timeout: float = CALL_TIMEOUT
    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    always_load: bool = False
    protocol: Protocol = "auto"
    enabled: bool = True
    sampling: bool = False
    reload: bool = False
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    fault: str = ""

    @property
    def thing(self) -> Thing:
        """What the user is asked to trust."""
        return Thing(self.source, self.digest, self.name)

    @property
    def target(self) -> str:
        """Its command line or URL as written, without what looks like a secret: fit for a screen or a log."""
        return shown_url(self.url) if self.url else " ".join(_shown_words(self.command))

    def wants(self, tool: str) -> bool:
        return tool not in self.exclude and (self.include is None or tool in self.include)


@dataclass(frozen=True, slots=True)
class Launch:
    """An entry with its variables filled in. Never shown."""

    command: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cwd: str = field(default="", repr=False)
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    client_secret: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Configured:
    """`entries` by name, nearest scope first; `hidden`: entries of the same name in a wider scope. `faults`: files that
    could not be read, a sentence each. `share`: part of the context that one server's schemas may take."""

    entries: tuple[Entry, ...] = ()
    hidden: tuple[Entry, ...] = ()
    faults: tuple[str, ...] = ()
    share: float = TOOL_SHARE

    def find(self, name: str) -> Entry | None:
        return next((e for e in self.entries if e.name == name), None)


def read_configured(folder: Path, config: Path, given: Sequence[str] = ()) -> Configured:
    """`given`: files (or JSON texts) of `--mcp-config`; raises ConfigError when one of them cannot be read. `config`:
    the user's folder."""
    found: list[Entry] = []
    faults: list[str] = []
    share = TOOL_SHARE
    for text in given:
        found += _of_text(text)
    user_file, project_file = config / USER_FILE, project_file_of(folder)
    user, fault = _read(user_file)
    faults += [fault] if fault else []
    mine = mapping(mapping(user.get("projects")).get(str(folder)))
    found += entries_of(mine, "local", user_file)
    project, fault = _read(project_file)
    faults += [fault] if fault else []
    found += entries_of(project, "project", project_file)
    found += entries_of(user, "user", user_file)
    if isinstance(given_share := user.get("tool_share"), int | float) and 0 <= given_share <= 1:
        share = float(given_share)
    entries: dict[str, Entry] = {}
    hidden: list[Entry] = []
    for entry in found:
        if entry.name in entries:
            hidden.append(entry)
        else:
            entries[entry.name] = entry
    return Configured(tuple(entries.values()), tuple(hidden), tuple(faults), share)


def project_file_of(folder: Path) -> Path:
    """The nearest `.mcp.json`, from the folder up to the root of its repository; in the folder where there is none."""
    for place in (folder, *folder.parents):
        if (place / PROJECT_FILE).is_file():
            return place / PROJECT_FILE
        if (place / ".git").exists():
            break
    return folder / PROJECT_FILE


def entries_of(data: Mapping[str, Any], scope: Scope, source: Path) -> list[Entry]:
    """The entries of one file's object, whichever of the known keys holds them."""
    servers = mapping(data.get("mcpServers") or data.get("servers") or data.get("mcp_servers"))
    return [entry_of(str(name), raw, scope, source) for name, raw in servers.items()]


def entry_of(name: str, raw: Any, scope: Scope, source: Path) -> Entry:
    """Understands the spellings of other agents; keys that it does not know do not matter."""
    given = mapping(raw)
    digest = digest_of(raw)
    command, url, fault = _where(given)
    kind = given.get("type") or given.get("transport") or ("http" if url else "stdio")
    transport = KINDS.get(kind) if isinstance(kind, str) else None
    if not name.strip():
        fault = "it has no name"
    elif transport is None:
        fault = f"its type {kind!r} is not known; there are stdio, http and sse"
    elif not fault and bool(url) == (transport == "stdio"):
        fault = "a server of this type needs " + ("a command" if transport == "stdio" else "a url")
    timeout, oauth = _seconds(given.get("timeout")), mapping(given.get("oauth"))
    protocol = given.get("protocol")
    return Entry(
        name,
        scope,
        source,
        digest,
        transport or "stdio",
        command,
        _texts(given.get("env") or given.get("environment")),
        _text(given.get("cwd")),
        url,
        _headers(given),
        _seconds(given.get("start_timeout") or given.get("startup_timeout_sec")) or START_TIMEOUT,
        _seconds(given.get("call_timeout") or given.get("tool_timeout_sec")) or (timeout or 0) / 1000 or CALL_TIMEOUT,
        _names(given, "include_tools", "includeTools", "enabled_tools"),
        _names(given, "exclude_tools", "excludeTools", "disabled_tools") or (),
        bool(given.get("always_load") or given.get("alwaysLoad")),
        protocol if protocol in ("auto", "legacy", "2026-07-28") else "auto",
        given.get("disabled") is not True and given.get("enabled") is not False,
        given.get("sampling") is True,
        given.get("reload") is True,
        _text(oauth.get("clientId") or oauth.get("client_id")),
        _text(oauth.get("clientSecret") or oauth.get("client_secret")),
        fault,
    )


def launch_of(entry: Entry, env: Mapping[str, str]) -> Launch:
    """Fills in `${VAR}` and `${VAR:-default}`. Raises ConfigError for a variable that is not set, by its name."""

    def fill(text: str) -> str:
        def value(found: re.Match[str]) -> str:
            name, default = found[1], found[2]
            if (known := env.get(name) or default) is not None:
                return known
            if name in env:
                return ""
            raise ConfigError(f"the variable {name} is not set; set it, or write ${{{name}:-default}}")

        return VARIABLE.sub(value, text)

    return Launch(
        tuple(fill(word) for word in entry.command),
        {fill(k): fill(v) for k, v in entry.env.items()},
        fill(entry.cwd),
        fill(entry.url),
        {fill(k): fill(v) for k, v in entry.headers.items()},
        fill(entry.client_secret),
    )


def shown_url(url: str) -> str:
    """Without user, password, and the values of what may be keys."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        place = f"[{host}]" if ":" in host else host
        place += f":{parts.port}" if parts.port else ""
    except ValueError:
        return "(an address that cannot be read)"
    query = re.sub(r"=[^&]*", "=…", parts.query)
    return urlunsplit((parts.scheme, place or parts.netloc.rsplit("@", 1)[-1], parts.path, query, ""))


def _shown_words(words: Iterable[str]) -> Iterable[str]:
    secret = False
    for word in words:
        name, equals, _ = word.partition("=")
        if secret and not word.startswith("-"):
            yield "…"
        elif equals and SECRET.search(name):
            yield f"{name}=…"
        elif "://" in word:
            yield shown_url(word)
        else:
            yield word
        secret = word.startswith("-") and not equals and bool(SECRET.search(word))


def _of_text(text: str) -> list[Entry]:
    """Of `--mcp-config`: a file, or the JSON itself."""
    if text.lstrip().startswith("{"):
        source, content = Path("--mcp-config"), text
    else:
        source = Path(text).expanduser().absolute()
        try:
            content = read_text(source)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise ConfigError(f"Cannot read the MCP configuration {source}: {why}.") from error
    data, fault = _parse(content, source)
    if fault:
        raise ConfigError(fault)
    if not any(k in data for k in ("mcpServers", "servers", "mcp_servers")):
        raise ConfigError(f'{source} holds no MCP servers; they stand under "mcpServers".')
    return entries_of(data, "flag", source)


def _read(file: Path) -> tuple[Mapping[str, Any], str]:
    try:
        content = read_text(file)
    except FileNotFoundError:
        return {}, ""
    except (OSError, ValueError) as error:
        return {}, f"Cannot read {file}: {getattr(error, 'strerror', None) or 'it is not UTF-8 text'}."
    return _parse(content, file)


def _parse(content: str, source: Path) -> tuple[Mapping[str, Any], str]:
    try:
        data = json.loads(content)
    except json.JSONDecodeError as error:
        return {}, f"{source} is not valid JSON: {error.msg} in line {error.lineno}, column {error.colno}."
    except RecursionError:
        return {}, f"{source} is not valid JSON: it is nested too deeply."
    return (cast("Mapping[str, Any]", data), "") if isinstance(data, dict) else ({}, f"{source} is not a JSON object.")


def _where(given: Mapping[str, Any]) -> tuple[tuple[str, ...], str, str]:
    """Command line, URL, and what is wrong with them."""
    command, args = given.get("command"), given.get("args")
    url = _text(given.get("url") or given.get("httpUrl") or given.get("serverUrl"))
    if not given:
        return (), "", "it is not an object"
    words: list[Any] = [command] if isinstance(command, str) and command.strip() else []
    words = cast("list[Any]", command) if isinstance(command, list) else words
    if words and isinstance(args, list):
        words = [*words, *cast("list[Any]", args)]
    if args is not None and not isinstance(args, list):
        return (), url, "its args are not a list"
    if any(not isinstance(word, str | int | float) for word in words):
        return (), url, "its command and args must be texts"
    if not words and not url:
        return (), "", "it has neither a command nor a url"
    if url and not words and urlsplit(VARIABLE.sub("x", url)).scheme not in ("http", "https") and "${" not in url:
        return (), url, "its url begins with neither http:// nor https://"
    return tuple(str(word) for word in words), "" if words else url, ""


def _headers(given: Mapping[str, Any]) -> dict[str, str]:
    """Codex names variables where others write `${VAR}`."""
    headers = {**_texts(given.get("headers") or given.get("http_headers"))}
    headers |= {k: f"${{{v}}}" for k, v in _texts(given.get("env_http_headers")).items()}
    if bearer := _text(given.get("bearer_token_env_var")):
        headers["Authorization"] = f"Bearer ${{{bearer}}}"
    return headers


def _texts(value: Any) -> dict[str, str]:
    given = mapping(value)
    return {str(k): v if isinstance(v, str) else json.dumps(v) for k, v in given.items() if v is not None}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _seconds(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else None


def _names(given: Mapping[str, Any], *keys: str) -> tuple[str, ...] | None:
    for key in keys:
        if isinstance(value := given.get(key), list):
            return tuple(str(name) for name in cast("list[Any]", value))
    return None
