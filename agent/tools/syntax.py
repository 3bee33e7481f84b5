"""The shell's grammar by tree-sitter, and where it sees less in a line than the shell does. Knows no commands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

_JOIN = re.compile(r"(?<!\\)((?:\\\\)*)\\\n")
# Joined where the shell would not: in a comment, in a text whose end is given, in a word with single quotes.
_UNSURE_JOIN = re.compile(r"<<|(?<![^\s;&|()`])#")
# Gives a variable a value, or evaluates one: `a[$(rm x)]` as the value of a name in arithmetic runs rm.
_EVALUATES = re.compile(
    r"\$\{(?:!|[#]?\w+\[(?![@*]\]|\d+\])|\w+:?=|\w+:[^-+=?}]*[A-Za-z_$]|.*@[A-Za-z]\}\Z)", re.DOTALL
)


@cache
def parser() -> Parser:
    return Parser(Language(tree_sitter_bash.language()))


def joined(text: str) -> str | None:
    """The line with its continued lines put together, as the shell does even within a word. None where it may be that
    the shell would not."""
    if "\\\n" not in text:
        return text
    if (re.search(r"\S\\\n\S", text) and "'" in text) or _UNSURE_JOIN.search(text):
        return None
    return _JOIN.sub(r"\1", text)


def evaluates(node: Node) -> bool:
    """Does an expansion give a variable a value, or evaluate one as arithmetic or as a prompt?"""
    raw = _text(node)
    if node.type == "arithmetic_expansion":
        return re.search("[A-Za-z_]", raw) is not None
    return _EVALUATES.match(raw) is not None


def hides_commands(heredoc: Node) -> bool:
    """Backquotes in a text that the shell expands: the grammar takes them for plain text."""
    quoted = any(c.type == "heredoc_start" and re.search(r"['\"\\]", _text(c)) for c in heredoc.children)
    return not quoted and any(c.type == "heredoc_body" and "`" in _text(c) for c in heredoc.children)


def below(node: Node, kinds: Sequence[str], *, nested: bool = False) -> Iterator[Node]:
    """The topmost nodes of these kinds below, or with `nested` those inside them too."""
    for child in node.children:
        if child.type in kinds:
            yield child
        if nested or child.type not in kinds:
            yield from below(child, kinds, nested=nested)


def feeds(node: Node) -> bool:
    """Does something write to what a command in here would read?"""
    return node.type == "pipeline" or any(c.type in ("heredoc_redirect", "file_redirect") for c in node.children)


def must_succeed(left: Node) -> bool:
    """Was every command in here done, and with success, when what follows `&&` is reached?"""
    if left.type == "list":
        return any(c.type == "&&" for c in left.children) and all(map(must_succeed, left.named_children))
    if left.type == "redirected_statement":
        return bool(left.named_children) and must_succeed(left.named_children[0])
    return left.type == "command"


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")
