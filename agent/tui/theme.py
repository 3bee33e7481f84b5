"""The colours of the screen, by what they say. Knows nothing of widgets. Nothing may depend on colour alone: every
state also has a glyph or a word."""

from __future__ import annotations

from rich.style import Style
from textual.theme import Theme

INK = "#d5d9e0"
BRIGHT = "#f2f4f8"
QUIET = "#8b93a1"
FAINT = "#5b6472"
LINE = "#333a45"
GROUND = "#12151b"
PANEL = "#1a1f27"
ACCENT = "#7cc4b8"
BLUE = "#8ab4f0"
GREEN = "#8fc78a"
YELLOW = "#e0bd72"
RED = "#e5847c"

ink = Style(color=INK)
bright = Style(color=BRIGHT)
bold = Style(color=BRIGHT, bold=True)
quiet = Style(color=QUIET)
faint = Style(color=FAINT)
line = Style(color=LINE)
accent = Style(color=ACCENT)
accent_bold = Style(color=ACCENT, bold=True)
blue = Style(color=BLUE)
good = Style(color=GREEN)
warn = Style(color=YELLOW)
bad = Style(color=RED)
musing = Style(color=QUIET, italic=True)
selected = Style(color=BRIGHT, bgcolor="#2f4a57")
added = Style(color="#a9d8a2", bgcolor="#16251d")
removed = Style(color="#eba39b", bgcolor="#2a191b")
chosen = Style(color=GROUND, bgcolor=ACCENT, bold=True)

CODE_THEME = "one-dark"

DFLASH_THEME = Theme(
    name="dflash",
    primary=ACCENT,
    secondary=BLUE,
    accent=ACCENT,
    foreground=INK,
    background=GROUND,
    surface=GROUND,
    panel=PANEL,
    success=GREEN,
    warning=YELLOW,
    error=RED,
    dark=True,
    variables={"border": LINE, "border-blurred": LINE},
)

MARKDOWN_STYLES: dict[str, Style | str] = {
    "markdown.paragraph": ink,
    "markdown.text": ink,
    "markdown.item": ink,
    "markdown.h1": bold,
    "markdown.h2": bold,
    "markdown.h3": accent_bold,
    "markdown.h4": accent_bold,
    "markdown.h5": accent,
    "markdown.h6": accent,
    "markdown.code": Style(color=ACCENT),
    "markdown.code_block": ink,
    "markdown.block_quote": quiet,
    "markdown.list": ink,
    "markdown.item.bullet": accent,
    "markdown.item.number": accent,
    "markdown.hr": line,
    "markdown.link": blue,
    "markdown.link_url": Style(color=BLUE, underline=True),
    "markdown.strong": Style(bold=True, color=BRIGHT),
    "markdown.em": Style(italic=True),
    "markdown.table.border": line,
    "markdown.table.header": bold,
}
