"""Which commands only look: a table of names and of what makes each of them do more. A command that is not here is not
bad, it is only asked about."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

# print or compare what they are given; none of their options writes or runs anything
PLAIN = frozenset(
    (
        *("[", "basename", "cat", "cd", "cksum", "cmp", "col", "column", "comm", "cut", "df", "diff", "dirname", "du"),
        *("echo", "egrep", "expand", "expr", "false", "fgrep", "file", "fmt", "fold", "free", "grep", "groups", "head"),
        *("hexdump", "hostname", "id", "jq", "ls", "md5sum", "nl", "nproc", "od", "paste", "printf", "ps", "pwd"),
        *("readlink", "realpath", "rev", "seq", "sha1sum", "sha256sum", "sha512sum", "stat", "strings", "tac", "tail"),
        *("test", "tr", "true", "tsort", "type", "uname", "unexpand", "uptime", "wc", "which", "whoami", "xxd", ":"),
        *("date", "find", "rg", "sort", "tree", "uniq", "git", "sed", "command", "sleep", "bat", "fd", "cal", "arch"),
    )
)
# options that make them write, run or read what nobody named; a trailing * is any ending
MORE: Mapping[str, tuple[str, ...]] = {
    "date": ("-s*", "--set*", "-f*", "--file*"),
    "diff": ("--to-file*",),
    "egrep": ("-r", "-R", "--recursive", "--dereference-recursive", "-f*", "--file*"),
    "fd": ("-x*", "-X*", "--exec*", "-H", "-u", "-I", "--hidden", "--no-ignore*", "--unrestricted"),
    "fgrep": ("-r", "-R", "--recursive", "--dereference-recursive", "-f*", "--file*"),
    "file": ("-C", "--compile", "-f*", "--files-from*"),
    "find": ("-exec*", "-ok*", "-delete", "-fprint*", "-fls", "-files0-from"),
    "grep": ("-r", "-R", "--recursive", "--dereference-recursive", "-f*", "--file*"),
    "hostname": ("-F*", "--file*", "-b"),
    "jq": ("-f*", "--from-file*", "--rawfile", "--slurpfile", "--argfile", "-L*"),
    "rg": ("--pre*", "--hidden", "-.", "--no-ignore*", "-u*", "--unrestricted", "-f*", "--file*", "-z", "--search-zip"),
    "sort": ("-o*", "--output*", "--compress-program*", "-T*", "--temporary*", "--files0*"),
    "tail": ("--pid*",),
    "tree": ("-o*", "--fromfile"),
    "wc": ("--files0*",),
    "xxd": ("-r", "-revert"),
    "bat": ("--pager*", "--config-file*"),
    "du": ("--files0*", "-X*", "--exclude-from*"),
}
# the patterns and expressions of these are no files
EXPRESSIONS = frozenset(
    ("[", "test", "expr", "grep", "egrep", "fgrep", "rg", "jq", "tr", "echo", "printf", "sed", "seq")
)
# never show what is in a file they are told
SILENT = frozenset(("echo", "printf", "touch", "test", "[", "rm", "rmdir", "mkdir", "ls", "chmod", "chown", "stat"))
GIT = frozenset(
    (
        *("status", "log", "diff", "show", "blame", "describe", "shortlog", "rev-parse", "rev-list", "ls-files"),
        *("ls-tree", "cat-file", "merge-base", "name-rev", "count-objects", "cherry", "show-ref", "for-each-ref"),
        *("branch", "tag", "remote", "stash", "reflog", "config", "worktree", "version", "check-ignore", "grep"),
    )
)
# subcommands that only look with these words behind them
GIT_LOOKS: Mapping[str, frozenset[str]] = {
    "branch": frozenset(("-a", "-r", "-v", "-vv", "--all", "--list", "--show-current", "--remotes", "--verbose")),
    "tag": frozenset(("-l", "--list", "-n")),
    "remote": frozenset(("-v", "--verbose", "show", "get-url")),
    "stash": frozenset(("list", "show")),
    "reflog": frozenset(("show",)),
    "config": frozenset(("--get", "--list", "-l", "--get-all", "--get-regexp")),
    "worktree": frozenset(("list",)),
}
GIT_MORE = (
    "-c",
    "--config-env*",
    "--exec-path*",
    "--output*",
    "-o",
    "--ext-diff",
    "--textconv",
    "-O*",
    "--open-files*",
)
_SED_LINES = re.compile(r"(?:\d+|\$)(?:,(?:\d+|\$|\+\d+))?p(?:;(?:\d+|\$)(?:,(?:\d+|\$))?p)*\Z")


def only_looks(words: Sequence[str]) -> bool:
    """`words`: a simple command without quotes, all of them known."""
    name, rest = words[0], list(words[1:])
    if "/" not in name and rest in (["--version"], ["-V"], ["--help"]):
        return re.fullmatch(r"[A-Za-z][\w.+-]*", name) is not None and name != "git"
    if name not in PLAIN or any(_is_one_of(w, MORE.get(name, ())) for w in rest):
        return False
    match name:
        case "git":
            return _git(rest)
        case "sed":
            return len(rest) >= 2 and rest[0] == "-n" and bool(_SED_LINES.match(rest[1])) and _no_options(rest[2:])
        case "uniq":
            return sum(not w.startswith("-") for w in rest) <= 1  # the second file is written
        case "command":
            return rest[:1] in (["-v"], ["-V"])
        case "hostname" | "xxd":
            return sum(not w.startswith("-") for w in rest) <= (name == "xxd")
        case "sleep":
            return len(rest) == 1 and rest[0].replace(".", "").isdigit() and float(rest[0]) <= 30
        case "date":
            return all(w.startswith(("+", "-")) for w in rest)
        case "grep" | "egrep" | "fgrep":
            return not any(re.match(r"-[A-Za-z]*[rRf]", w) for w in rest)
        case "sort":
            return not any(re.match(r"-[A-Za-z]*[oT]", w) for w in rest)
        case "rg":
            return not any(re.match(r"-[A-Za-z]*[uz.f]", w) for w in rest)
        case _:
            return True


def _git(rest: list[str]) -> bool:
    if rest[:1] == ["--no-pager"]:
        rest = rest[1:]
    if not rest or rest[0] not in GIT or any(_is_one_of(w, GIT_MORE) for w in rest):
        return False
    looks = GIT_LOOKS.get(rest[0])
    if looks is None:
        return True
    if rest[0] in ("config", "worktree"):
        return len(rest) > 1 and rest[1] in looks
    return all(w in looks for w in rest[1:2]) and (rest[0] != "stash" or len(rest) > 1) and not _changes(rest[2:])


def _changes(rest: list[str]) -> bool:
    return any(re.match(r"-[dDmMfcCu]|--(delete|move|force|copy|set|unset|edit)", w) for w in rest)


def _no_options(words: list[str]) -> bool:
    return not any(w.startswith("-") for w in words)


def _is_one_of(word: str, options: Sequence[str]) -> bool:
    return any(word.startswith(o[:-1]) if o.endswith("*") else word == o for o in options)
