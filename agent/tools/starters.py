"""Commands that start other commands, and where in their words those begin. Tables; knows no grammar."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
# The grammar takes these for commands where it loses its way; what stands behind them is one.
RESERVED = frozenset(
    (
        *(
            "{",
            "}",
            "!",
            "[[",
            "]]",
            "if",
            "then",
            "else",
            "elif",
            "fi",
            "do",
            "done",
            "case",
            "esac",
            "while",
            "until",
        ),
        *("for", "select", "function", "in"),
    )
)

_SHELL_OPTIONS = re.compile(r"-[celuvx]+\Z")


@dataclass(frozen=True, slots=True)
class Starter:
    """A command that starts the one written behind it. `values`: options that take the next word; `first`: words of its
    own before the command. `through`: it adds nothing that a rule would have to allow."""

    values: frozenset[str] = frozenset()
    first: int = 0
    through: bool = True
    more: bool = False  # it adds words of its own to the command


def _starter(values: str = "", first: int = 0, *, through: bool = True, more: bool = False) -> Starter:
    return Starter(frozenset(values.split()), first, through, more)


STARTERS = {
    "timeout": _starter("-k -s --kill-after --signal", 1),
    "nice": _starter("-n --adjustment"),
    "ionice": _starter("-c -n --class --classdata"),
    "nohup": _starter(),
    "time": _starter("-f --format"),
    "stdbuf": _starter("-i -o -e --input --output --error"),
    "setsid": _starter(),
    "command": _starter(),
    "builtin": _starter(),
    "exec": _starter("-a"),
    "env": _starter("-u -C -S --unset --chdir --split-string", through=False),
    "coproc": _starter(),
    "taskset": _starter("", 1),
    "chrt": _starter("", 1),
    "sudo": _starter("-u -g -h -p -C -D -R -T -U -r -t --user --group --host --chdir", through=False),
    "doas": _starter("-u -C", through=False),
    "xargs": _starter(
        "-a -d -E -I -L -n -P -s --arg-file --delimiter --max-lines --max-args --max-procs --replace --max-chars",
        more=True,
    ),
}
SHELLS = frozenset(("bash", "sh", "dash", "zsh", "ksh", "ash", "rbash"))
# Start what stands somewhere behind them; where is not worked out: every tail of their words is looked at.
CARRIERS = frozenset(
    (
        *("bunx", "busybox", "catchsegv", "chroot", "cpulimit", "dbus-run-session", "entr", "fakeroot", "firejail"),
        *("flock", "gdb", "ltrace", "npx", "nsenter", "parallel", "pnpx", "proot", "prlimit", "runuser", "screen"),
        *("script", "setarch", "setpriv", "ssh", "start-stop-daemon", "strace", "su", "systemd-run", "tmux", "toybox"),
        *("tsp", "unbuffer", "unshare", "uvx", "valgrind", "watch", "xvfb-run"),
    )
)
CARRYING = frozenset(
    (
        *(("uv", "run"), ("poetry", "run"), ("pipenv", "run"), ("pdm", "run"), ("conda", "run"), ("npm", "exec")),
        *(("pnpm", "exec"), ("pnpm", "dlx"), ("yarn", "dlx"), ("docker", "exec"), ("docker", "run"), ("podman", "run")),
        *(("podman", "exec"), ("kubectl", "exec"), ("direnv", "exec"), ("mise", "exec"), ("git", "bisect")),
        *(("git", "submodule"), ("bundle", "exec"), ("nix", "run"), ("nix", "develop"), ("hatch", "run")),
    )
)


def behind(texts: Sequence[str], starter: Starter) -> int:
    """Where the command behind the starter's own options and words begins."""
    at, own = 1, starter.first
    while at < len(texts):
        text = texts[at]
        if text == "--":
            at += 1
        elif text.startswith("-") and len(text) > 1:
            at += 2 if text in starter.values else 1
        elif ASSIGNMENT.match(text):
            at += 1
        elif own:
            own -= 1
            at += 1
        else:
            break
    return min(at, len(texts))


def script_at(texts: Sequence[str]) -> int | None:
    """Where a shell's words hold the script that follows `-c`."""
    at, wanted = 1, False
    while at < len(texts) and texts[at][:1] in ("-", "+") and len(texts[at]) > 1:
        text = texts[at]
        if text in ("-o", "+o", "-O", "+O", "--rcfile", "--init-file"):
            at += 1
        elif not text.startswith("--") and "c" in text and text[0] == "-":
            wanted = True
        at += 1
    return at if wanted and at < len(texts) else None


def names_script(texts: Sequence[str]) -> bool:
    """Does a shell read what it runs from a file it is told?"""
    return any(not t.startswith(("-", "+")) for t in texts[1:]) and "-s" not in texts[1:]


def found_starts(texts: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Where in the words of `find` the commands are that it starts."""
    at = 0
    while at < len(texts):
        if texts[at] in ("-exec", "-execdir", "-ok", "-okdir"):
            end = next((n for n in range(at + 1, len(texts)) if texts[n] in (";", "+")), len(texts))
            if end > at + 1:
                yield at + 1, end
            at = end
        at += 1


def is_itself(written: str, texts: Sequence[str]) -> bool:
    """Is it the system's own, told to do no more than start the command behind it?"""
    name = os.path.basename(written)
    if "/" in written and os.path.dirname(written) not in ("/bin", "/usr/bin"):
        return False
    if name in SHELLS:
        at = script_at(texts) or 1
        return all(_SHELL_OPTIONS.match(t) or t in ("-o", "pipefail", "errexit", "nounset") for t in texts[1:at])
    return name != "time" or not (texts[1:2] and texts[1].startswith("-") and texts[1] != "-p")  # it can write a file
