"""Patterns over paths, as .gitignore writes them. One place, since rules, searches and listings must agree."""

from __future__ import annotations

import re
from functools import lru_cache

SPECIAL = frozenset("*?[{")


@lru_cache(maxsize=512)
def glob_regex(pattern: str) -> re.Pattern[str]:
    """Matches a whole path. `*` and `?` stop at slashes, `**` does not, `[…]` and `{a,b}` as in a shell. What is no
    pattern stands for itself."""
    return re.compile(_translate(pattern) + r"\Z", re.DOTALL)


def _translate(pattern: str) -> str:
    out: list[str] = []
    at = depth = 0
    while at < len(pattern):
        sign = pattern[at]
        at += 1
        if sign == "*":
            if pattern[at : at + 1] == "*":
                at += 1
                if pattern[at : at + 1] == "/":  # `**/` is any number of folders, also none
                    at += 1
                    out.append("(?:.*/)?")
                else:
                    out.append(".*")
            else:
                out.append("[^/]*")
        elif sign == "?":
            out.append("[^/]")
        elif sign == "[" and (end := pattern.find("]", at + 1)) > 0:
            inside = pattern[at:end].replace("\\", r"\\").replace("[", r"\[")
            out.append("[" + ("^" + inside[1:] if inside[0] in "!^" else inside) + "]")
            at = end + 1
        elif sign == "{" and "}" in pattern[at:]:
            depth += 1
            out.append("(?:")
        elif sign == "}" and depth:
            depth -= 1
            out.append(")")
        elif sign == "," and depth:
            out.append("|")
        elif sign == "\\" and at < len(pattern):
            out.append(re.escape(pattern[at]))
            at += 1
        else:
            out.append(re.escape(sign))
    return "".join(out) + ")" * depth


def has_glob(text: str) -> bool:
    return not SPECIAL.isdisjoint(text)
