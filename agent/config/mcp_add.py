"""Adding a server the way users find it documented: the command lines of other agents, or a piece of JSON. Pure but for
the two functions at the end, which change one file and keep all else that stands in it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from agent.config.foreign import mapping
from agent.config.mcp import USER_FILE, entry_of, project_file_of
from agent.config.plainfile import read_text
from agent.errors import ConfigError

AddScope: TypeAlias = Literal["user", "project", "local"]
SCOPES: tuple[AddScope, ...] = ("user", "project", "local")
AGENTS = ("claude", "codex", "gemini", "qwen", "copilot", "kimi", "vibe", "dflash-agent")
USAGE = (
    "Write it as NAME -- COMMAND ARGS, as NAME URL, or as JSON. Options: -e KEY=VALUE, -H 'Name: value', "
    "-t stdio|http|sse, -s user|project|local."
)
_VALUED = {
    "-s": "scope",
    "--scope": "scope",
    "-t": "type",
    "--transport": "type",
    "--type": "type",
    "-e": "env",
    "--env": "env",
    "-H": "header",
    "--header": "header",
    "--url": "url",
    "--bearer-token-env-var": "bearer",
    "--timeout": "timeout",
    "--include-tools": "include",
    "--exclude-tools": "exclude",
    "--cwd": "cwd",
    "--client-id": "client_id",
    "--description": "ignored",
    "--callback-port": "ignored",
}
_BARE = ("--trust", "--force", "-f")
Server: TypeAlias = tuple[str, Mapping[str, Any]]


@dataclass(slots=True)
class _Said:
    scope: str = ""
    kind: str = ""
    env: dict[str, str] = field(default_factory=dict[str, str])
    headers: dict[str, str] = field(default_factory=dict[str, str])
    more: dict[str, Any] = field(default_factory=dict[str, Any])
    words: list[str] = field(default_factory=list[str])
    url: str = ""


def parse_add(words: Sequence[str]) -> tuple[AddScope, list[Server]]:
    """Scope and (name, entry) of each server. Raises ConfigError with how it is written."""
    rest = _without_agent(list(words))
    if any(word.lstrip().startswith("{") for word in rest[:4]):
        return _of_json(rest)
    said = _read(rest)
    scope = _scope(said.scope)
    if not said.words:
        raise ConfigError(f"A name is missing. {USAGE}")
    name, *command = said.words
    url = said.url or (command[0] if command and _is_url(command[0]) else "")
    if url and len(command) > (0 if said.url else 1):
        raise ConfigError(f"{command[-1]!r} stands behind a URL and means nothing there. {USAGE}")
    if not url and not command:
        raise ConfigError(f"What is {name!r} to run? {USAGE}")
    raw: dict[str, Any] = {"type": said.kind or "http", "url": url} if url else {"command": command[0]}
    if not url and command[1:]:
        raw["args"] = command[1:]
    raw |= {"env": said.env} if said.env else {}
    raw |= {"headers": said.headers} if said.headers else {}
    return scope, [_checked(name, raw | said.more)]


def _without_agent(words: list[str]) -> list[str]:
    """`claude mcp add …` pasted whole."""
    if words and words[0] in AGENTS:
        words = words[1:]
    if words[:1] == ["mcp"]:
        words = words[1:]
    return words[1:] if words[:1] in (["add"], ["add-json"]) else words


def _read(words: list[str]) -> _Said:
    said = _Said()
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word == "--":
            said.words += words[at:]
            break
        option, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if option in _BARE:
            continue
        if option in _VALUED:
            if not equals:
                if at == len(words):
                    raise ConfigError(f"{option} needs a value. {USAGE}")
                value = words[at]
                at += 1
            _take(said, _VALUED[option], value, option)
            while _VALUED[option] == "env" and at < len(words) and _is_setting(words[at]):
                _take(said, "env", words[at], option)
                at += 1
        elif word.startswith("-") and len(said.words) < 2:
            raise ConfigError(f"{word} is not known here. {USAGE}")
        else:
            said.words.append(word)
            if len(said.words) == 2 and not _is_url(word):  # a command: what follows is its own
                said.words += words[at + 1 :] if words[at : at + 1] == ["--"] else words[at:]
                break
    return said


def _take(said: _Said, what: str, value: str, option: str) -> None:
    match what:
        case "scope":
            said.scope = value
        case "type":
            said.kind = value
        case "url":
            said.url = value
        case "env":
            key, equals, text = value.partition("=")
            if not equals or not key:
                raise ConfigError(f"{option} takes KEY=VALUE, not {value!r}.")
            said.env[key] = text
        case "header":
            key, colon, text = value.partition(":")
            if not colon or not key.strip():
                raise ConfigError(f"{option} takes 'Name: value', not {value!r}.")
            said.headers[key.strip()] = text.strip()
        case "bearer":
            said.headers["Authorization"] = f"Bearer ${{{value}}}"
        case "timeout":
            said.more["timeout"] = _number(value, option)
        case "include":
            said.more["includeTools"] = [v.strip() for v in value.split(",")]
        case "exclude":
            said.more["excludeTools"] = [v.strip() for v in value.split(",")]
        case "cwd":
            said.more["cwd"] = value
        case "client_id":
            said.more["oauth"] = {"clientId": value}
        case _:
            pass


def _number(text: str, option: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise ConfigError(f"{option} takes a number of milliseconds, not {text!r}.") from error


def _of_json(words: list[str]) -> tuple[AddScope, list[Server]]:
    """`{"mcpServers": {…}}`, one entry with its name inside it, or a name and its entry."""
    place = next(n for n, word in enumerate(words) if word.lstrip().startswith("{"))
    said = _read([*words[:place], *words[place + 1 :]])
    try:
        data = mapping(json.loads(words[place]))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"The JSON cannot be read: {error}.") from error
    servers = mapping(data.get("mcpServers") or data.get("servers"))
    if servers:
        return _scope(said.scope), [_checked(name, mapping(raw)) for name, raw in servers.items()]
    if not ({"command", "url", "httpUrl", "serverUrl"} & set(data)):
        nested = {name: mapping(raw) for name, raw in data.items() if isinstance(raw, dict)}
        if not nested:
            raise ConfigError(f"The JSON holds no server. {USAGE}")
        return _scope(said.scope), [_checked(name, raw) for name, raw in nested.items()]
    name = said.words[0] if said.words else data.get("name")
    if not isinstance(name, str) or not name.strip():
        raise ConfigError("The JSON has no name; write NAME before it.")
    return _scope(said.scope), [_checked(name, {k: v for k, v in data.items() if k != "name"})]


def _checked(name: str, raw: Mapping[str, Any]) -> Server:
    if fault := entry_of(name, raw, "user", Path()).fault:
        raise ConfigError(f"{name}: {fault}.")
    return name, raw


def _scope(text: str) -> AddScope:
    if text in ("", "global"):
        return "user"
    if text not in SCOPES:
        raise ConfigError(f"There is no scope {text!r}; there are {', '.join(SCOPES)}.")
    return text


def _is_url(word: str) -> bool:
    return word.startswith(("http://", "https://"))


def _is_setting(word: str) -> bool:
    key, equals, _ = word.partition("=")
    return bool(equals) and key.replace("_", "a").isalnum() and not key[:1].isdigit()


# ---- files
def file_of(scope: AddScope, folder: Path, config: Path) -> Path:
    return project_file_of(folder) if scope == "project" else config / USER_FILE


def write_servers(scope: AddScope, folder: Path, config: Path, servers: Sequence[Server]) -> Path:
    """Adds them and returns the file. Raises ConfigError where a name is taken or the file cannot be changed."""

    def add(known: dict[str, Any]) -> None:
        for name, raw in servers:
            if name in known:
                raise ConfigError(f"{name} is there already; `dflash-agent mcp remove {name}` takes it out first.")
            known[name] = dict(raw)

    return _changed(scope, folder, config, add)


def drop_server(scope: AddScope, folder: Path, config: Path, name: str) -> Path:
    """Raises ConfigError where it is not there."""

    def drop(known: dict[str, Any]) -> None:
        if known.pop(name, None) is None:
            raise ConfigError(f"There is no server {name!r} in that scope.")

    return _changed(scope, folder, config, drop)


def _changed(scope: AddScope, folder: Path, config: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    file = file_of(scope, folder, config)
    try:
        text = read_text(file) if file.exists() else "{}"
        data = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{file} cannot be read and stays as it is: {error}.") from error
    if not isinstance(data, dict):
        raise ConfigError(f"{file} is not a JSON object and stays as it is.")
    whole = cast("dict[str, Any]", data)
    place = whole
    if scope == "local":
        place = whole.setdefault("projects", {}).setdefault(str(folder), {})
    key = "mcpServers" if "mcpServers" in place or "servers" not in place else "servers"
    change(place.setdefault(key, {}))
    if scope == "local" and not place[key]:
        del whole["projects"][str(folder)]
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        mode = file.stat().st_mode & 0o777 if file.exists() else 0o644 if scope == "project" else 0o600
        part = file.with_name(f".{file.name}.{os.getpid()}")
        part.write_text(json.dumps(whole, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        part.chmod(mode)
        part.replace(os.path.realpath(file))
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror or error}.") from error
    return file
