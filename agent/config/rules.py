"""Where permission rules are written: the user's own configuration, what the user granted always in a project, and a
project's wish to forbid or ask. Reads and writes text; what a rule means is not known here."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from agent.config.plainfile import read_text
from agent.config.settings import rules_in
from agent.errors import ConfigError

# Read by default: none of these. A user's own allow rule about the very file lifts it.
SECRETS = (
    *(".env", ".env.local", ".env.*.local", ".env.production", ".env.development", ".env.staging", ".env.test"),
    *(".envrc", "*.pem", "*.key", "*.p12", "*.pfx", "*.keystore", "*.jks", "*.kdbx", "id_rsa", "id_dsa", "id_ecdsa"),
    *("id_ed25519", "id_ecdsa_sk", "id_ed25519_sk", ".netrc", ".pgpass", ".git-credentials", ".npmrc", ".pypirc"),
    *(".vault-token", ".htpasswd", "~/.ssh", "~/.aws", "~/.azure", "~/.gnupg", "~/.kube", "~/.oci", "~/.docker"),
    *("~/.config/gcloud", "~/.config/gh", "~/.config/op", "~/.config/hub", "~/.password-store", "~/.terraform.d"),
    *("~/.local/share/keyrings", "~/.cargo/credentials", "~/.cargo/credentials.toml", "~/.config/rclone"),
    *("~/.mozilla", "~/.config/google-chrome", "~/.config/chromium", "~/.thunderbird", "~/.bash_history"),
    *("~/.zsh_history", "//etc/shadow", "//etc/gshadow", "//etc/sudoers", "//proc/*/environ"),
)


@dataclass(frozen=True, slots=True)
class Written:
    """`source` in the user's words; `builtin`: comes with the product."""

    verdict: Literal["allow", "ask", "deny"]
    text: str
    source: str
    builtin: bool = False


def read_rules(user: Path, project: Path, kept: Path, folder: Path, home: Path) -> tuple[list[Written], list[str]]:
    """All rules, and what of a project's file does not count. `user` and `project`: config.toml files, `kept`: what the
    program has written for the user. Raises ConfigError for a file of the user's that cannot be read."""
    rules = _written(user, short(user, home))
    notes: list[str] = []
    wanted: list[Written] = []
    try:
        wanted = _written(project, ".dflash/config.toml")
    except ConfigError as error:
        notes.append(f"{error} Its rules do not count.")
    allowed = [w for w in wanted if w.verdict == "allow"]
    if allowed:
        notes.append(
            f".dflash/config.toml cannot allow anything: {len(allowed)} allow rules of this project do not count."
        )
    rules += [w for w in wanted if w.verdict != "allow"]
    rules += [Written("allow", text, "always in this project") for text in _kept(kept).get(str(folder), ())]
    rules += [Written("deny", f"Read({name})", "secrets", builtin=True) for name in SECRETS]
    return rules, notes


def keep_rules(file: Path, folder: Path, texts: Sequence[str]) -> None:
    """Adds allow rules for this project. Raises ConfigError."""
    everything = _kept(file)
    mine = everything.get(str(folder), [])
    everything[str(folder)] = [*mine, *(t for t in texts if t not in mine)]
    _write(file, everything)


def forget_rule(file: Path, folder: Path, text: str) -> None:
    """Raises ConfigError."""
    everything = _kept(file)
    everything[str(folder)] = [t for t in everything.get(str(folder), ()) if t != text]
    _write(file, {f: rules for f, rules in everything.items() if rules})


def short(path: Path, home: Path) -> str:
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def _written(file: Path, source: str) -> list[Written]:
    rules = rules_in(file)
    return [
        *(Written("deny", text, source) for text in rules.deny),
        *(Written("ask", text, source) for text in rules.ask),
        *(Written("allow", text, source) for text in rules.allow),
    ]


def _kept(file: Path) -> dict[str, list[str]]:
    try:
        data = json.loads(read_text(file))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"Cannot read the rules in {file}: {error}. Mend or delete the file.") from error
    if not isinstance(data, dict):
        raise ConfigError(f"{file} does not hold rules. Mend or delete the file.")
    rules: dict[str, list[str]] = {}
    for folder, texts in cast("dict[str, Any]", data).items():
        if isinstance(texts, list):
            rules[folder] = [t for t in cast("list[Any]", texts) if isinstance(t, str)]
    return rules


def _write(file: Path, rules: Mapping[str, Sequence[str]]) -> None:
    part = file.with_suffix(f".{os.getpid()}.part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        part.write_text(json.dumps(rules, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        part.chmod(0o600)
        part.replace(file)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise ConfigError(f"Cannot write {file}: {error.strerror}.") from error
