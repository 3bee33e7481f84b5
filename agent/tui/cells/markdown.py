"""Markdown as rows: Rich's renderer with quiet headings, code without a box, tables that shrink. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, HorizontalRule, Markdown, MarkdownElement
from rich.padding import Padding
from rich.rule import Rule
from rich.segment import Segment
from rich.style import Style
from rich.syntax import Syntax

from agent.tui import theme
from agent.tui.cells.paper import console, rich_rows

CODE_INDENT = 2


def syntax(code: str, lexer: str) -> Syntax:
    return Syntax(code, lexer or "text", theme=theme.CODE_THEME, word_wrap=True, background_color=theme.GROUND)


class PlainHeading(Heading):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        text = self.text.copy()
        text.justify = "left"
        yield text


class IndentedCode(CodeBlock):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Padding(syntax(str(self.text).rstrip(), self.lexer_name), (0, 0, 0, CODE_INDENT))


class QuietRule(HorizontalRule):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Rule(style=theme.line, characters="─")


class QuietMarkdown(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": PlainHeading,
        "fence": IndentedCode,
        "code_block": IndentedCode,
        "hr": QuietRule,
    }


def _without_links(row: list[Segment]) -> Iterator[Segment]:
    """No terminal hyperlinks: what the model writes must not become clickable."""
    for text, style, control in row:
        if style is not None and style.link:
            style = style.update_link(None)
        yield Segment(text, style, control)


def markdown_rows(text: str, width: int) -> list[list[Segment]]:
    """`text` must be clean."""
    rows = [list(_without_links(row)) for row in rich_rows(QuietMarkdown(text, hyperlinks=False), width)]
    while rows and _blank(rows[0]):
        rows.pop(0)
    while rows and _blank(rows[-1]):
        rows.pop()
    # a table brings blank rows of its own; code keeps its blank rows, which are indented
    double = [n for n in range(1, len(rows)) if not _width(rows[n]) and not _width(rows[n - 1])]
    for n in reversed(double):
        del rows[n]
    return rows


def _width(row: list[Segment]) -> int:
    return sum(len(s.text) for s in row)


def _blank(row: list[Segment]) -> bool:
    return not "".join(s.text for s in row).strip()


def code_rows(line: str, highlighter: Syntax, width: int) -> list[list[Segment]]:
    """One line of an open fence."""
    paper = console(max(1, width - CODE_INDENT))
    text = highlighter.highlight(line)
    text.rstrip()
    rows = paper.render_lines(text, paper.options, pad=False)
    indent = Segment(" " * CODE_INDENT, Style.null())
    return [[indent, *row] for row in rows]
