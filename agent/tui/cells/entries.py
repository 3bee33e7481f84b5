"""One entry of the conversation as strips: pure functions of the entry, the width and whether all is unfolded."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from agent.tui import theme
from agent.tui.cells.growing import growing_strips
from agent.tui.cells.paper import BLANK, clean, framed, one_line, prose, verbatim
from agent.tui.cells.stream import answer_strips
from agent.tui.figures import end_figures
from agent.tui.picture import Answer, Call, End, Entry, Note, Said, Thought

FOLDED_LINES = 12
SAID_MOST = 40  # rows of the user's own message while folded: a pasted megabyte must not fill the screen
STATES: dict[str, tuple[str, Style, str]] = {
    "writing": ("◌", theme.faint, "writing"),
    "planned": ("○", theme.quiet, ""),
    "asking": ("?", theme.warn, "waiting for you"),
    "running": ("◐", theme.blue, "running"),
    "ok": ("✓", theme.good, ""),
    "failed": ("✗", theme.bad, "failed"),
    "cut": ("✗", theme.warn, "broke off, not run"),
}
TONES: dict[str, Style] = {
    **{"": theme.ink, "faint": theme.faint, "bold": theme.bold, "accent": theme.accent, "good": theme.good},
    **{"warn": theme.warn, "bad": theme.bad},
}
NOTE_MARKS = {"info": ("·", theme.quiet), "warning": ("!", theme.warn), "error": ("✗", theme.bad)}


def entry_strips(entry: Entry, width: int, unfolded: bool) -> list[Strip]:
    """Ends with one blank row, so that entries stand apart."""
    width = max(8, width)
    match entry:
        case Said():
            strips = said(entry, width, unfolded)
        case Thought():
            strips = thought(entry, width, unfolded)
        case Answer():
            strips = answer_strips(entry.text, width)
        case Call():
            strips = call(entry, width, unfolded)
        case End():
            strips = end(entry, width, unfolded)
        case Note(draw=draw) if draw is not None:
            strips = [Strip([Segment(clean(text), TONES[tone]) for text, tone in row]) for row in draw(width - 1)]
        case Note():
            mark, style = NOTE_MARKS[entry.level]
            strips = framed(prose(clean(entry.text), width - 2, style), Segment(f"{mark} ", style), Segment("  "))
        case _:
            strips = []
    return [*(s if s.cell_length <= width else s.crop(0, width) for s in strips), BLANK] if strips else []


def said(entry: Said, width: int, unfolded: bool) -> list[Strip]:
    text = entry.text if unfolded else entry.text[: SAID_MOST * width]
    rows = prose(clean(text).strip("\n"), width - 2, theme.bold)
    left = len(entry.text) - len(text)
    if not unfolded and (len(rows) > SAID_MOST or left):
        rows = [*rows[:SAID_MOST], [Segment(f"… {len(entry.text):,} characters in all · Ctrl+O", theme.faint)]]
    return framed(rows, Segment("› ", theme.accent_bold), Segment("  "))


def thought(entry: Thought, width: int, unfolded: bool) -> list[Strip]:
    head = "Thinking" if entry.live else "Thought"
    title: list[Segment] = [Segment("∴ ", theme.faint), Segment(head, theme.quiet)]
    count = f" · {len(entry.text.split()):,} words"
    title.append(Segment(count, theme.faint))
    if not unfolded:
        if entry.live:
            last = entry.text[-400:].rstrip().rpartition("\n")[2]
            room = width - len(head) - len(count) - 5
            if room > 10:
                title.append(Segment("  " + one_line(last[-room:], room), theme.musing))
        return [Strip(title)]
    bar = Segment("  │ ", theme.line)
    return [Strip(title), *framed(prose(clean(entry.text).strip(), width - 4, theme.musing), bar, bar)]


def call(entry: Call, width: int, unfolded: bool) -> list[Strip]:
    mark, style, word = STATES[entry.state]
    if entry.denied and entry.state == "failed":
        word = "not allowed"
    name = clean(entry.tool) or "call"
    subject = entry.command if entry.command is not None else _subject(entry)
    if entry.state in ("writing", "cut"):
        return growing_strips(name, entry.preview, Segment(f"{mark} ", style), word, width, unfolded)
    seconds = f"{entry.seconds:.1f} s" if entry.seconds >= 1 else ""
    aside = " · ".join(x for x in (word, *(m for m in entry.mending if m != "refused"), seconds) if x)
    head = [Segment(f"{mark} ", style), Segment(name, theme.bold)]
    room = max(4, width - len(name) - 4)
    empty: list[list[Segment]] = [[]]
    rows = verbatim(clean(subject).strip("\n"), room, theme.ink, None if unfolded else 3)[0] if subject else empty
    strips: list[Strip] = []
    for n, row in enumerate(rows):
        lead = [*head, Segment("  ")] if n == 0 else [Segment(" " * (len(name) + 4))]
        strips.append(Strip([*lead, *row]))
    if aside:
        tail = Segment(f"  {aside}", style if entry.state in ("asking", "failed", "running") else theme.faint)
        if strips[-1].cell_length + len(tail.text) <= width:
            strips[-1] = Strip([*strips[-1], tail])
        else:
            strips.append(Strip([tail]))
    if entry.state == "asking":  # the dock shows what it is about
        return strips
    if entry.continued and entry.state == "ok":
        return [*strips, Strip([Segment("  ╰ shown with the next edit of this file", theme.faint)])]
    if entry.kind in ("edit", "delete", "move") and entry.preview and not entry.denied and entry.state != "failed":
        return strips + body(entry.preview, width, unfolded, diff=True, named=bool(subject))
    if entry.state == "running":
        return strips + body(entry.output + entry.tail, width, unfolded, diff=False, newest=True)
    return strips + body(entry.output, width, unfolded, diff=False)


def _subject(entry: Call) -> str:
    title = entry.title
    return title.removeprefix(f"{entry.tool} ") if title else ""


def body(text: str, width: int, unfolded: bool, *, diff: bool, newest: bool = False, named: bool = True) -> list[Strip]:
    """Output or diff below a card, folded to twelve rows. `newest`: the last ones; of live output they say how far it
    is. `named`: the card has said whose diff it is."""
    if not text.strip():
        return []
    inner, bar = max(4, width - 4), Segment("  │ ", theme.line)
    most = None if unfolded else FOLDED_LINES
    text = text.strip("\n")
    if most is None:
        rows, left = (diff_rows(text, inner, named), 0) if diff else verbatim(clean(text), inner, theme.quiet)
    else:
        lines = text.split("\n")
        shown, left = lines[-most:] if newest else lines[:most], max(0, len(lines) - most)
        piece = "\n".join(x[: inner * most] for x in shown)
        rows = diff_rows(piece, inner, named) if diff else verbatim(clean(piece), inner, theme.quiet)[0]
        if len(rows) > most:
            rows, left = rows[-most:] if newest else rows[:most], max(left, 1)
    strips = framed(rows, bar, bar)
    if left:
        corner, where = ("╭", "earlier") if newest else ("╰", "more")
        note = Strip([Segment(f"  {corner} ", theme.line), Segment(f"{left} {where} lines · Ctrl+O", theme.faint)])
        strips.insert(0 if newest else len(strips), note)
    return strips


def _without_file_names(lines: list[str]) -> list[str]:
    """A diff of one file says its name twice above the first hunk."""
    named = len(lines) > 2 and lines[0].startswith("--- ") and lines[1].startswith("+++ ")
    return lines[2:] if named else lines


def diff_rows(text: str, width: int, named: bool = True) -> list[list[Segment]]:
    """`named`: what stands above has said whose diff it is."""
    rows: list[list[Segment]] = []
    lines = text.split("\n")
    for raw in _without_file_names(lines) if named else lines:
        style = theme.quiet
        if raw.startswith(("+++", "---")):
            style = theme.faint
        elif raw.startswith("@@"):
            style = theme.blue
        elif raw.startswith("+"):
            style = theme.added
        elif raw.startswith("-"):
            style = theme.removed
        for row in verbatim(clean(raw), width, style)[0]:
            if style in (theme.added, theme.removed):
                row = [Segment(row[0].text + " " * (width - Strip(row).cell_length), style)]
            rows.append(row)
    return rows


def end(entry: End, width: int, unfolded: bool) -> list[Strip]:
    text = end_figures(entry, width - 4) if entry.outcome == "done" or entry.timings else ""
    figures = [Strip([Segment("  ", theme.line), Segment(text, theme.faint)])] if text else []
    if entry.outcome == "done":
        return figures
    if entry.outcome in ("compacted", "restored"):
        mark, style = "·", theme.quiet
        why = f"{entry.detail}\n{entry.text}" if unfolded and entry.text else entry.detail
    elif entry.outcome == "interrupted":
        mark, style = "■", theme.warn
        why = entry.detail or "Interrupted. Nothing you typed is lost; go on when you like."
    else:
        mark, style = ("!", theme.warn) if entry.outcome in ("limit", "denied") else ("✗", theme.bad)
        why = entry.detail or {"limit": "Limit reached.", "denied": "Permission needed."}.get(entry.outcome, "Failed.")
    return [*framed(prose(clean(why), width - 2, style), Segment(f"{mark} ", style), Segment("  ")), *figures]
