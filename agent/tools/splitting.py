"""What a shell line would run and touch, part by part, without running it. Knows the shell's grammar (by tree-sitter)
and the commands that start other commands; knows nothing of permissions. Where it cannot be sure it says so."""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tree_sitter import Node

from agent.tools.starters import (
    ASSIGNMENT,
    CARRIERS,
    CARRYING,
    RESERVED,
    SHELLS,
    STARTERS,
    behind,
    found_starts,
    is_itself,
    names_script,
    script_at,
)
from agent.tools.syntax import below, evaluates, feeds, hides_commands, joined, must_succeed, parser

DEPTH = 6  # of scripts within scripts
SYNTAX = "its grammar is not clear"
HIDDEN = "it runs something that is only known when it runs"


@dataclass(frozen=True, slots=True)
class Word:
    """`raw` as written, `text` without quotes. `known`: nothing in it is decided only when it runs; `glob`: the shell
    would expand it against the files there."""

    raw: str
    text: str
    known: bool = True
    glob: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """One simple command. `through`: it only starts the next one(s), which follow as parts of their own. `carried`:
    what else it may start, in words. `assigned`: variables are set for it. `fixed`: all its words are known. `cwd`: the
    folder it runs in, None where that is not known; `cwds`: others that it may run in, where a cd before it fails, or
    was not reached."""

    words: tuple[Word, ...]
    cwd: str | None
    cwds: frozenset[str] = frozenset()
    through: bool = False
    carried: tuple[str, ...] = ()
    assigned: bool = False
    fixed: bool = True

    @property
    def raw(self) -> str:
        return " ".join(w.raw for w in self.words)

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(w.text for w in self.words)

    @property
    def name(self) -> str:
        return os.path.basename(self.words[0].text)


@dataclass(slots=True)
class Script:
    """`reads` and `writes`: targets of redirects, with the folder they are relative to. `unclear`: why not all is
    known; empty when it is."""

    parts: list[Part] = field(default_factory=list[Part])
    reads: list[tuple[Word, str | None]] = field(default_factory=list[tuple[Word, str | None]])
    writes: list[tuple[Word, str | None]] = field(default_factory=list[tuple[Word, str | None]])
    unclear: str = ""


def split(line: str, cwd: str, home: str = "~") -> Script:
    """Never raises: what cannot be parsed is unclear."""
    script = Script()
    _Walk(script, cwd, home, 0).line(line)
    return script


_SUBSTITUTIONS = ("command_substitution", "process_substitution")
_WRITING = frozenset((">", ">>", ">|", "&>", "&>>", ">&", "<>"))
_BRACES = re.compile(r"\{[^{}]*(?:,|\.\.)[^{}]*\}")
_NAMED_FD = re.compile(r"\{\w+(?:\[.*\])?\}\Z")
_FOLDERS = 16  # that a line may be in; with more it is not known where
_MOVES = re.compile(rb"\b(?:cd|pushd|popd|eval)\b")


class _Walk:
    def __init__(self, script: Script, cwd: str | None, home: str, depth: int) -> None:
        self._script, self._cwd, self._home, self._depth = script, cwd, home, depth
        self._source = b""
        self._fed = False  # a shell here would read what it runs from somewhere else
        self._maybe: frozenset[str] = frozenset()  # folders it is in, if some cd so far was not done

    def line(self, text: str) -> None:
        if self._depth > DEPTH:
            self._doubt(HIDDEN)
            return
        if "\\`" in text or re.search(r"(?<!\$)\(\(", text):  # nested backquotes; arithmetic, or a shell in a shell
            self._doubt(SYNTAX)
        whole = joined(text)
        if whole is None:
            self._doubt(SYNTAX)
        text = text if whole is None else whole
        self._source = text.encode("utf-8", "surrogatepass")
        root = parser().parse(self._source).root_node
        if root.has_error:
            self._doubt(SYNTAX)
        if any(evaluates(node) for node in below(root, ("arithmetic_expansion", "expansion"), nested=True)):
            self._doubt(HIDDEN)
        self._node(root)

    def _doubt(self, why: str) -> None:
        self._script.unclear = self._script.unclear or why

    # ---- the tree
    def _node(self, node: Node) -> None:
        match node.type:
            case "command":
                self._command(node)
            case "declaration_command" | "unset_command" | "test_command" | "variable_assignment":
                self._plain(node)
            case "file_redirect":
                self._redirect(node)
            case "pipeline" | "redirected_statement":
                was, self._fed = self._fed, self._fed or feeds(node)
                with self._elsewhere(node.type == "pipeline"):
                    self._children(node)
                self._fed = was
            case "subshell" | "command_substitution" | "process_substitution":
                with self._elsewhere():
                    self._children(node)
            case "list":
                self._list(node)
            case "for_statement" | "while_statement" | "c_style_for_statement" | "function_definition":
                variable = node.child_by_field_name("variable")
                if variable is not None and not re.match("[a-z]", self._text(variable)):  # PATH, GIT_PAGER
                    self._doubt(HIDDEN)
                # done again, or later, from where it left off
                if _MOVES.search(self._source if node.type == "function_definition" else node.text or b""):
                    self._cwd = None
                self._children(node)
            case "heredoc_redirect":
                if hides_commands(node):
                    self._doubt(HIDDEN)
                self._children(node)
            case "ERROR":
                self._doubt(SYNTAX)
                self._children(node)
            case _:
                if node.is_missing:
                    self._doubt(SYNTAX)
                self._children(node)

    def _children(self, node: Node) -> None:
        for child in node.children:
            behind = child.next_sibling
            with self._elsewhere(behind is not None and behind.type == "&"):
                self._node(child)

    @contextmanager
    def _elsewhere(self, apart: bool = True) -> Generator[None]:
        """In a process of its own: where that goes, this shell does not."""
        was = self._cwd, self._maybe
        yield
        if apart:
            self._cwd, self._maybe = was

    def _list(self, node: Node) -> None:
        """Behind `&&` a cd was done; behind all else it may not have been."""
        left, *rest = node.children
        cwd, maybe = self._cwd, self._maybe
        self._node(left)
        if self._cwd != cwd and any(c.type == "&&" for c in rest) and must_succeed(left):
            self._maybe = maybe
        for child in rest:
            self._node(child)
        if self._cwd != cwd and cwd is not None:
            self._maybe |= {*maybe, cwd}

    def _text(self, node: Node) -> str:
        return self._source[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def _plain(self, node: Node) -> None:
        raw = " ".join(self._text(node).split())
        unknown = (*_SUBSTITUTIONS, "expansion", "simple_expansion", "arithmetic_expansion")
        known = not any(True for _ in below(node, unknown))
        # [ … ] keeps its name; a variable set on its own line is a part like any other
        words = tuple(Word(piece, piece, known) for piece in raw.split(" "))
        self._script.parts.append(Part(words, self._cwd, self._maybe, fixed=known))
        self._inner(node)

    def _inner(self, node: Node) -> None:
        """Commands in substitutions below."""
        for inner in below(node, _SUBSTITUTIONS):
            self._node(inner)

    def _redirect(self, node: Node) -> None:
        target = node.child_by_field_name("destination")
        operator = next((c.type for c in node.children if c.type in _WRITING or c.type in ("<", "<&")), "")
        if target is None:
            if not any(c.type.endswith("-") for c in node.children):
                self._doubt(SYNTAX)
            return
        word = self._word(target)
        self._inner(node)
        if operator.endswith("&") and (word.text.isdigit() or word.text == "-"):
            return
        if target.type == "process_substitution":
            return
        if not word.known or _BRACES.search(word.raw):
            self._doubt("where it writes to or reads from is only known when it runs")
        elif operator in _WRITING:
            self._script.writes += [(word, cwd) for cwd in (self._cwd, *sorted(self._maybe))]
        else:
            self._script.reads += [(word, cwd) for cwd in (self._cwd, *sorted(self._maybe))]

    # ---- words
    def _word(self, node: Node) -> Word:
        raw = self._text(node)
        pieces = [self._piece(n) for n in (node.children if node.type == "concatenation" else [node])]
        if node.type == "concatenation" and _BRACES.search(raw):
            return Word(raw, raw, known=False)
        text = "".join(p.text for p in pieces)
        if raw == "~" or raw.startswith("~/"):
            text = self._home + text[1:]
        return Word(raw, text, all(p.known for p in pieces), any(p.glob for p in pieces))

    def _piece(self, node: Node) -> Word:
        raw = self._text(node)
        match node.type:
            case "word" | "command_name" | "number" | "variable_name" | "test_operator":
                if node.type == "command_name" and node.child_count:
                    return self._word(node.children[0])
                bare = raw.replace("\\\n", "")
                glob = bool(re.search(r"(?<!\\)[*?\[]", bare))
                known = (not _BRACES.search(bare) and not bare.startswith("~")) or bare == "~" or bare.startswith("~/")
                return Word(raw, re.sub(r"\\(.)", r"\1", bare, flags=re.DOTALL), known, glob)
            case "raw_string":
                return Word(raw, raw[1:-1])
            case "string":
                return self._string(node, raw)
            case "ansi_c_string":
                return Word(raw, raw[2:-1], known="\\" not in raw)
            case "simple_expansion" | "expansion" if raw in ("$HOME", "${HOME}"):
                return Word(raw, self._home)
            case "simple_expansion" | "expansion" if raw in ("$PWD", "${PWD}") and self._cwd is not None:
                return Word(raw, self._cwd)
            case _:
                return Word(raw, raw, known=node.child_count == 0 and "$" not in raw and "`" not in raw)

    def _string(self, node: Node, raw: str) -> Word:
        inside = [c for c in node.children if c.type not in ('"', "string_content")]
        if not inside:
            return Word(raw, re.sub(r'\\([$`"\\\n])', lambda m: m[1].strip("\n"), raw[1:-1]))
        if len(inside) == 1 and (home := self._piece(inside[0])).known and raw.count("\\") == 0:
            return Word(raw, raw[1:-1].replace(home.raw, home.text, 1))
        return Word(raw, raw, known=False)

    # ---- commands
    def _command(self, node: Node) -> None:
        name = node.child_by_field_name("name")
        nodes = [*([] if name is None else [name]), *node.children_by_field_name("argument")]
        words = [self._word(n) for n in nodes]
        assigned = any(c.type == "variable_assignment" for c in node.children)
        prefix = [Word(self._text(c), self._text(c)) for c in node.children if c.type == "variable_assignment"]
        fed = self._fed or any(c.type in ("herestring_redirect", "heredoc_redirect") for c in node.children)
        for child in node.children:
            if child.type in ("file_redirect", "herestring_redirect", "heredoc_redirect"):
                self._node(child)
            elif child.type in ("subshell", "compound_statement", "test_command", "command"):
                self._doubt(SYNTAX)
                self._node(child)
        self._inner(node)
        if not words:
            return
        if _NAMED_FD.search(words[-1].raw) and self._source[nodes[-1].end_byte : nodes[-1].end_byte + 1] in (
            b"<",
            b">",
        ):
            self._doubt(HIDDEN)  # sets the variable named
        known = all(w.known for w in words)
        if assigned:
            part = Part((*prefix, *words), self._cwd, self._maybe, assigned=True, fixed=known)
            self._script.parts.append(part)
        self._judge(words, fed, assigned)
        self._overrun(node, nodes)

    def _overrun(self, node: Node, nodes: Sequence[Node]) -> None:
        """The grammar runs on over the end of some lines, in front of a backslash: what is behind is looked at anew."""
        ends = [node.start_byte, *(n.end_byte for n in nodes)]
        for n, end in zip(nodes, ends, strict=False):
            bare = n.end_byte if n.type in ("word", "command_name") else n.start_byte
            if (at := self._source.find(b"\n", end, bare)) >= 0 and self._source[at - 1 : at] != b"\\":
                self._doubt(SYNTAX)
                rest = self._source[at + 1 : node.end_byte].decode("utf-8", "replace")
                _Walk(self._script, self._cwd, self._home, self._depth + 1).line(rest)
                return

    def _judge(self, words: Sequence[Word], fed: bool, assigned: bool = False) -> None:
        """Adds the command and what it starts."""
        first = words[0]
        fixed = all(w.known for w in words)
        if not first.known or first.glob or _BRACES.search(first.raw):
            self._doubt(HIDDEN)
        if first.raw in RESERVED or ASSIGNMENT.match(first.text):
            self._doubt(SYNTAX)
            if len(words) > 1:
                self._judge(words[1:], fed, assigned)
            return
        name = os.path.basename(first.text)
        texts = [w.text for w in words]
        inner = self._started(name, words)
        through = inner is not None and (name in SHELLS or name == "eval" or STARTERS[name].through)
        through = through and is_itself(first.text, texts)
        if inner is None and name in SHELLS and fed and not names_script(texts):
            self._doubt(HIDDEN)
        carried: tuple[str, ...] = ()
        if name in CARRIERS or (len(words) > 1 and (name, words[1].text) in CARRYING):
            carried = tuple(" ".join(texts[n:]) for n in range(1, len(texts)))
        part = Part(tuple(words), self._cwd, self._maybe, through or assigned, carried, fixed=fixed)
        self._script.parts.append(part)
        if name in ("cd", "pushd", "popd"):
            self._moved(words)
        for then in (inner or ()) if name not in SHELLS else ():
            self._judge(then, fed)
        if name == "find":
            for start, end in found_starts(texts):
                self._judge(words[start:end], fed=False)

    def _started(self, name: str, words: Sequence[Word]) -> list[Sequence[Word]] | None:
        """The commands that this one starts, None where it starts none. Scripts given as text are walked at once."""
        if name in SHELLS:
            at = script_at([w.text for w in words])
            return None if at is None else self._script_of([words[at]])
        if name == "eval":
            return self._script_of(words[1:])
        if name == "trap" and len(words) > 2:
            self._script_of(words[1:2])
            return None
        starter = STARTERS.get(name)
        if starter is None:
            return None
        rest = words[behind([w.text for w in words], starter) :]
        if name == "command" and any(w.text in ("-v", "-V") for w in words[1:2]):
            return None
        if name == "env" and any(w.text.startswith(("-S", "--split-string")) for w in words):
            self._doubt(HIDDEN)
        if not rest:
            return None
        if starter.more:
            rest = [*rest, Word("…", "…", known=False)]
        return [rest]

    def _script_of(self, words: Sequence[Word]) -> list[Sequence[Word]]:
        if not all(w.known for w in words):
            self._doubt(HIDDEN)
        walk = _Walk(self._script, self._cwd, self._home, self._depth + 1)
        walk._maybe = self._maybe
        walk.line(" ".join(w.text for w in words))
        if words and walk._cwd != self._cwd:  # eval; or a shell of its own, and this one stays
            self._maybe |= {c for c in (self._cwd, walk._cwd) if c is not None}
            self._cwd = walk._cwd
        return []

    def _moved(self, words: Sequence[Word]) -> None:
        target = words[1] if len(words) > 1 else None
        known = words[0].text == "cd" and (target is None or (target.known and not target.glob and target.text != "-"))
        if not known or self._cwd is None or len(self._maybe) > _FOLDERS:
            self._cwd = None
        else:
            was, to = {self._cwd, *self._maybe}, target.text if target else self._home
            self._cwd = os.path.normpath(os.path.join(self._cwd, to))
            self._maybe |= {os.path.normpath(os.path.join(m, to)) for m in was} | was
