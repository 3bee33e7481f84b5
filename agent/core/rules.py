"""Permission rules, `Tool(specifier)`: what they mean and which of them speaks of a thing a call does. Pure: where
rules are kept is the business of whoever loads them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from agent.globs import glob_regex
from agent.protocols import Access

Verdict: TypeAlias = Literal["allow", "ask", "deny"]
Matcher: TypeAlias = Callable[[str], bool]

_RULE = re.compile(r"\s*([A-Za-z_][\w*.-]*)\s*(?:\((.*)\))?\s*\Z", re.DOTALL)
ACTS = {
    "bash": "run",
    "read": "read",
    "list": "read",
    "glob": "read",
    "grep": "read",
    "edit": "edit",
    "write": "edit",
}


@dataclass(frozen=True, slots=True)
class Rule:
    """`text` as written. `source`: where it comes from, in the user's words. `builtin`: yields to what the user's own
    rules allow."""

    verdict: Verdict
    text: str
    source: str
    builtin: bool
    _act: str
    _tool: Matcher
    _what: Matcher | None

    @classmethod
    def parse(cls, verdict: Verdict, text: str, source: str, *, root: str, home: str, builtin: bool = False) -> Rule:
        """Path specifiers are .gitignore patterns: `//abs`, `~/at-home`, `/from-the-project`, or a name at any depth.
        Command specifiers: exact, `begin:*` at a word's end, `*` for anything. Raises ValueError."""
        found = _RULE.match(text)
        if not found:
            raise ValueError(f"{text!r} is no rule; write Tool or Tool(specifier), such as Bash(npm test:*).")
        tool, spec = found[1].lower(), found[2]
        act = ACTS.get(tool, "use")
        what: Matcher | None = None
        if spec is not None and spec.strip() not in ("", "*", "**"):
            what = _path_matcher(spec.strip(), root, home) if act in ("read", "edit") else command_matcher(spec.strip())
        pattern = glob_regex(tool)
        return cls(verdict, text.strip(), source, builtin, act, lambda name: bool(pattern.match(name)), what)

    @property
    def is_specific(self) -> bool:
        return self._what is not None

    def speaks_of(self, act: str) -> bool:
        return self._act == act

    def covers(self, tool: str, access: Access) -> bool:
        """Does it speak of this? A rule that allows must fit the thing as it was written; one that forbids or asks
        fits any of its forms."""
        if self._act == "use":
            if not (self._tool(tool.lower()) or tool.lower().startswith(f"{self.text.lower()}__")):
                return False
            return self._what is None or self._what(access.what)
        if self._act != access.act:
            return False
        if self._what is None:
            return True
        forms = (access.what,) if self.verdict == "allow" else (access.what, *access.forms)
        return any(map(self._what, forms))


def command_matcher(spec: str) -> Matcher:
    """`\\*` is a star that the command itself has."""
    begins = spec.endswith((":*", " *"))
    pieces = re.split(r"(?<!\\)\*", spec[:-2] if begins else spec)
    end = r"(?:\s.*)?\Z" if begins else r"\Z"
    pattern = re.compile(".*".join(re.escape(p.replace("\\*", "*")) for p in pieces) + end, re.DOTALL)
    return lambda text: bool(pattern.match(text))


def _path_matcher(spec: str, root: str, home: str) -> Matcher:
    spec = spec.removesuffix("/")
    if spec.startswith("//"):
        spec = spec[1:]
    elif spec.startswith("~/"):
        spec = _literal(home) + spec[1:]
    elif spec.startswith("/"):
        spec = _literal(root) + spec
    else:
        spec = f"/**/{spec.removeprefix('./')}"
    whole, below = glob_regex(spec), glob_regex(f"{spec}/**")
    return lambda path: bool(whole.match(path) or below.match(path))


def _literal(path: str) -> str:
    """A folder's name in a pattern: its own `*` and `[` are no signs."""
    return re.sub(r"([*?\[\]{}\\])", r"\\\1", path.rstrip("/"))


class Rulebook:
    """All rules in force: those loaded, and what the user grants while the session runs. `keep` writes rules the user
    wants always in this project, `forget` removes one from where it is kept; both raise ConfigError."""

    def __init__(
        self,
        rules: Iterable[Rule] = (),
        *,
        root: str = "/",
        home: str = "/",
        keep: Callable[[Sequence[str]], str] | None = None,
        forget: Callable[[Rule], None] | None = None,
    ) -> None:
        self._rules = list(rules)
        self.root = root
        self._home = home
        self._keep, self._forget = keep, forget

    def __iter__(self) -> Iterator[Rule]:
        return iter(tuple(self._rules))

    def first(self, verdict: Verdict, tool: str, access: Access) -> Rule | None:
        """The rule with this verdict that speaks of it. A built-in one is silent where the user's own allow it."""
        for rule in self._rules:
            speaks = rule.verdict == verdict and rule.covers(tool, access)
            if speaks and not (rule.builtin and self._lifted(tool, access)):
                return rule
        return None

    def _lifted(self, tool: str, access: Access) -> bool:
        """The user's own words about this very thing; a bare `Read` says nothing about secrets."""
        return any(r.verdict == "allow" and r.is_specific and r.covers(tool, access) for r in self._rules)

    def any_for(self, act: str, *verdicts: Verdict) -> bool:
        return any(r.verdict in verdicts and r.speaks_of(act) for r in self._rules)

    def hides(self, path: str) -> bool:
        """May nothing of this file be read? `path` absolute."""
        access = Access("read", path)
        return self.first("deny", "read", access) is not None

    @property
    def can_keep(self) -> bool:
        return self._keep is not None

    def grant(self, texts: Sequence[str], *, always: bool) -> None:
        """Raises ConfigError when they cannot be kept; they hold for the session all the same."""
        known = {r.text for r in self._rules if r.verdict == "allow"}
        new = [t for t in dict.fromkeys(texts) if t not in known]
        self._add(new, "this session")
        if always and new and self._keep is not None:
            source = self._keep(new)
            self._rules = self._rules[: -len(new)]
            self._add(new, source)

    def _add(self, texts: Sequence[str], source: str) -> None:
        self._rules += [Rule.parse("allow", t, source, root=self.root, home=self._home) for t in texts]

    def remove(self, rule: Rule) -> None:
        """Raises ConfigError when it cannot be removed where it is kept."""
        if rule.source != "this session" and self._forget is not None:
            self._forget(rule)
        self._rules.remove(rule)


SUBCOMMANDS = frozenset(
    (
        *("apt", "bun", "bundle", "cargo", "composer", "conda", "deno", "django-admin", "docker", "dotnet", "flutter"),
        *("gh", "git", "go", "gradle", "helm", "kubectl", "make", "mvn", "npm", "pdm", "pip", "pip3", "pipx", "pnpm"),
        *("podman", "poetry", "rustup", "swift", "systemctl", "terraform", "uv", "yarn", "zig"),
    )
)
RUNS_SCRIPTS = frozenset(("npm", "pnpm", "yarn", "bun", "deno", "uv", "poetry", "pdm", "docker", "podman"))
# what does anything its arguments say: only the very line is offered
EXACT = frozenset(
    (
        *("awk", "bash", "bunx", "busybox", "chmod", "chown", "cp", "curl", "dash", "dd", "doas", "env"),
        *("eval", "exec", "expect", "find", "flock", "gawk", "gdb", "java", "julia", "kill", "ksh", "ln", "lua", "mv"),
        *("node", "npx", "nsenter", "osascript", "parallel", "perl", "php", "pkill", "pnpx", "python", "python3"),
        *("rm", "rsync", "ruby", "scp", "screen", "script", "sed", "sh", "source", "ssh", "strace", "su", "sudo"),
        *("systemd-run", "tar", "tee", "tmux", "tsx", "unshare", "uvx", "vi", "vim", "watch", "wget", "xargs", "zsh"),
        ".",
    )
)
# subcommands that run what is written behind them, or make a later one do so
EXACT_AFTER = frozenset(
    (
        *(("git", "bisect"), ("git", "config"), ("git", "filter-branch"), ("git", "rebase"), ("git", "submodule")),
        *(("git", "difftool"), ("git", "mergetool"), ("npm", "config"), ("npm", "explore"), ("pnpm", "dlx")),
        *(("yarn", "dlx"), ("yarn", "config"), ("pnpm", "config"), ("bun", "x"), ("pip", "config"), ("deno", "eval")),
        *(("go", "env"), ("uv", "tool"), ("docker", "compose"), ("conda", "config"), ("gh", "alias")),
    )
)
_PLAIN_WORD = re.compile(r"[A-Za-z][\w:.@-]*\Z")


def offer(tool: str, access: Access, root: str) -> str:
    """The narrowest rule that is still of use for a thing like this."""
    if access.act in ("read", "edit"):
        inside = access.what.startswith(root.rstrip("/") + "/")
        place = access.what[len(root.rstrip("/")) :] if inside else f"/{access.what}"
        return f"{access.act.capitalize()}({_literal(place)})"
    if access.act == "use":
        return tool
    exact = f"Bash({access.what.replace('*', chr(92) + '*')})"
    words = access.what.split(" ")
    name = os.path.basename(words[0])
    if "\n" in access.what or not re.fullmatch(r"[\w./~+-]+", words[0]) or name in EXACT:
        return exact
    kept = 1
    if name in SUBCOMMANDS and len(words) > 1 and _PLAIN_WORD.match(words[1]):
        kept = 2
        if name in RUNS_SCRIPTS and words[1] in ("run", "exec") and len(words) > 2 and _PLAIN_WORD.match(words[2]):
            kept = 3
        if kept == 2 and (words[1] in ("run", "exec") or (name, words[1]) in EXACT_AFTER):
            return exact
    elif name in SUBCOMMANDS:
        return exact
    return f"Bash({' '.join(words[:kept])}:*)"
