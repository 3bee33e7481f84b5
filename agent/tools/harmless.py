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
_GREP = ("-r", "-R", "--recursive", "--dereference-recursive", "-f", "--file", "-d", "--directories")
# options that make them write, run or read what nobody named, with or without a value; a trailing * is any ending. A
# letter counts anywhere among letters that stand together, a long one however far it is abbreviated.
MORE: Mapping[str, tuple[str, ...]] = {
    "bat": ("--pager", "--config-file", "--config-dir", "--lessopen"),
    "date": ("--set", "--file"),
    "diff": ("-r", "--recursive", "--to-file", "--from-file"),
    "du": ("--files0-from", "-X", "--exclude-from"),
    "egrep": _GREP,
    "fd": (
        *("-x", "-X", "--exec", "--exec-batch", "-H", "-u", "-I", "-L", "--hidden"),
        *("--no-ignore*", "--unrestricted", "--follow"),
    ),
    "fgrep": _GREP,
    "file": ("-C", "--compile", "-f", "--files-from"),
    "find": ("-exec*", "-ok*", "-delete", "-fprint*", "-fls", "-files0-from"),
    "grep": _GREP,
    "hostname": ("-F", "--file", "-b"),
    "jq": ("-f", "--from-file", "--rawfile", "--slurpfile", "--argfile", "-L"),
    "rg": (
        *("--pre", "--pre-glob", "--hidden", "-.", "--no-ignore*", "-u", "--unrestricted", "-f", "--file", "-z"),
        *("--search-zip", "--hostname-bin", "-L", "--follow"),
    ),
    "sort": ("-o", "--output", "--compress-program", "-T", "--temporary-directory", "--files0-from"),
    "tail": ("--pid",),
    "tree": ("-o", "-R", "--fromfile"),
    "wc": ("--files0-from",),
    "xxd": ("-r*",),
}
# a second file that these are given is written; `-` is the first
WRITES_SECOND = frozenset(("uniq", "xxd"))
# run the project's own programs, or those that a file in it names, even to say their version
PROJECT_RUNS = frozenset(
    (
        *("yarn", "yarnpkg", "pnpm", "pnpx", "npx", "bunx", "corepack", "cargo", "rustc", "rustdoc", "rustfmt"),
        *("rust-analyzer", "clippy-driver", "bazel", "bazelisk", "rails", "mvn", "gradle", "composer", "direnv", "nix"),
    )
)
# the patterns and expressions of these are no files
EXPRESSIONS = frozenset(
    ("[", "test", "expr", "grep", "egrep", "fgrep", "rg", "jq", "tr", "echo", "printf", "sed", "seq")
)
# have options whose next word is what they leave out, or look for, and no file
LEAVES_OUT = frozenset(("diff", "du", "egrep", "fd", "fgrep", "grep", "ls", "rg", "rsync", "tar", "tree"))
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
    *("-c", "--config-env", "--exec-path", "--output", "-o", "--ext-diff", "--textconv", "-O", "--open-files-in-pager"),
    *("--no-index", "--untracked", "--no-exclude-standard"),
)
_SED_LINES = re.compile(r"(?:\d+|\$)(?:,(?:\d+|\$|\+\d+))?p(?:;(?:\d+|\$)(?:,(?:\d+|\$))?p)*\Z")


def only_looks(words: Sequence[str]) -> bool:
    """`words`: a simple command without quotes, all of them known."""
    name, rest = words[0], list(words[1:])
    if "/" not in name and rest in (["--version"], ["-V"], ["--help"]):
        return re.fullmatch(r"[A-Za-z][\w.+-]*", name) is not None and name not in ("git", *PROJECT_RUNS)
    if name not in PLAIN or any(_is_one_of(w, MORE.get(name, ())) for w in rest):
        return False
    if name in WRITES_SECOND and sum(w == "-" or not w.startswith("-") for w in rest) > 1:
        return False
    match name:
        case "git":
            return _git(rest)
        case "sed":
            return len(rest) >= 2 and rest[0] == "-n" and bool(_SED_LINES.match(rest[1])) and _no_options(rest[2:])
        case "command":
            return rest[:1] in (["-v"], ["-V"])
        case "hostname":
            return _options_only(rest)
        case "sleep":
            return len(rest) == 1 and rest[0].replace(".", "").isdigit() and float(rest[0]) <= 30
        case "date":
            return all(re.match(r"\+|--|-I|-[A-Zu]+\Z", w) for w in rest)
        case "printf":  # the shell's own gives a variable a value by these
            return not (rest and rest[0].startswith("-v")) and not any(re.search(r"%[^%A-Za-z]*n", w) for w in rest)
        case "test" | "[":  # -v looks into an array, and evaluates its index
            return not any("$'" in w or re.sub(r"[\"'\\$]", "", w) == "-v" for w in rest)
        case "jq":  # its programs can show the environment, and read files
            return not any(re.search(r"\benv\b|\$ENV|\b(?:import|include)\b|\binput_filename\b", w) for w in rest)
        case "ps":  # `e` shows the environment of the processes
            return all(w in ("-e", "-ef", "-eF", "-ely") or w.startswith("--") or "e" not in w for w in rest)
        case "bat":
            return rest[:1] != ["cache"]
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
    if not all(w in looks for w in rest[1:2]) or (rest[0] == "stash" and len(rest) == 1):
        return False
    if rest[0] in ("branch", "remote") and rest[1:2] and rest[1] not in ("--list", "show", "get-url"):
        return all(w in looks for w in rest[1:])  # `git remote -v rm x` removes, `git branch -v x` makes one
    return not _changes(rest[2:])


def _changes(rest: list[str]) -> bool:
    return any(re.match(r"-[A-Za-z]*[dDmMfcCu]|--(del|mov|for|cop|set|uns|edi)", w) for w in rest)


def _no_options(words: list[str]) -> bool:
    return not any(w.startswith("-") for w in words)


def _options_only(words: list[str]) -> bool:
    return all(w.startswith("-") for w in words)


def _is_one_of(word: str, options: Sequence[str]) -> bool:
    name = word.split("=", 1)[0]
    for option in options:
        if option.endswith("*"):
            found = word.startswith(option[:-1])
        elif option.startswith("--"):
            found = len(name) > 2 and option.startswith(name)
        elif len(option) == 2:
            found = re.match(rf"-[\w.]*{re.escape(option[1])}", word) is not None
        else:
            found = name == option
        if found:
            return True
    return False
