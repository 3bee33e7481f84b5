"""Every other cell: the user's words, thoughts, tool cards and notes."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from agent.tui.cells.answer import answer_strips
from agent.tui.cells.draw import one_line, safe, wrapped
from agent.tui.picture import AnswerCell, CallCell, Cell, NoteCell, ThoughtCell, UserCell
from agent.tui.theme import ACCENT, ADDED, DIM, FAINT, MARK_STYLES, MARKS, NOTE_STYLES, REMOVED, TEXT, WARN

FOLD = 12  # lines of output or diff that are shown folded


def cell_strips(cell: Cell, width: int, *, unfolded: bool) -> list[Strip]:
    match cell:
        case UserCell(text=text, steered=steered):
            return wrapped(text, width, f"bold {TEXT}", "┃ " if not steered else "┠ ", ACCENT)
        case ThoughtCell():
            return _thought(cell, width, unfolded=unfolded)
        case AnswerCell(text=text, cut=cut):
            return [*answer_strips(text, width), *(_cut_mark(width) if cut else [])]
        case CallCell():
            return _call(cell, width, unfolded=unfolded)
        case NoteCell(level=level, text=text):
            return wrapped(text, width, NOTE_STYLES[level], "! ", f"bold {NOTE_STYLES[level]}")


def _cut_mark(width: int) -> list[Strip]:
    return wrapped("⋯ cut short", width, f"italic {WARN}", "  ")


def _thought(cell: ThoughtCell, width: int, *, unfolded: bool) -> list[Strip]:
    if unfolded:
        return wrapped(cell.text.strip(), width, f"italic {DIM}", "∴ ", FAINT)
    if cell.open:
        last = cell.text.strip().rsplit("\n", 1)[-1]
        return wrapped(one_line(f"thinking: {last[-400:]}", width - 3), width, f"italic {DIM}", "∴ ", FAINT)
    return wrapped(one_line(f"thought, {len(cell.text.split())} words", width - 3), width, f"italic {DIM}", "∴ ", FAINT)


def _call(cell: CallCell, width: int, *, unfolded: bool) -> list[Strip]:
    if cell.state == "writing":
        note = f"writing a call, {len(cell.output)} characters"
        head = [_seg(MARKS["writing"] + " ", MARK_STYLES["writing"]), _seg(safe(cell.tool) or "tool", f"bold {TEXT}")]
        return [Strip([*head, _seg(f"  {note}", DIM)]).crop(0, width)]
    took = f"  {cell.seconds:.1f} s" if cell.state in ("ok", "failed") and cell.seconds >= 0.05 else ""
    room = width - len(cell.tool) - 5 - len(took)
    title = one_line(cell.title, room) if cell.title != cell.tool else ""
    head = [
        _seg(MARKS[cell.state] + " ", MARK_STYLES[cell.state]),
        _seg(safe(cell.tool), f"bold {TEXT}"),
        _seg(f"  {title}", TEXT),
        _seg(took, DIM),
    ]
    out = [Strip(head).crop(0, width)]
    more = cell.command.strip().split("\n")[1:]
    if more:
        out += _folded(wrapped("\n".join(more), width, TEXT, "  "), width, unfolded=unfolded)
    if cell.kind == "edit" and cell.preview and cell.state != "failed":
        return [*out, *_folded(diff_strips(cell.preview, width), width, unfolded=unfolded)]
    if cell.output.strip():
        body = wrapped(cell.output.rstrip(), width, DIM, "│ ", FAINT)
        out += _folded(body, width, unfolded=unfolded, tail=cell.state == "running")
    return out


def _folded(lines: list[Strip], width: int, *, unfolded: bool, tail: bool = False) -> list[Strip]:
    if unfolded or len(lines) <= FOLD + 1:
        return lines
    hidden = len(lines) - FOLD
    if tail:
        return [Strip([_seg(f"│ … {hidden} lines above", FAINT)]).crop(0, width), *lines[-FOLD:]]
    return [*lines[:FOLD], Strip([_seg(f"│ … {hidden} more lines (Ctrl+O)", FAINT)]).crop(0, width)]


def diff_strips(preview: str, width: int) -> list[Strip]:
    out: list[Strip] = []
    for line in preview.split("\n"):
        if line.startswith(("---", "+++")):
            continue
        style = (
            ADDED if line.startswith("+") else REMOVED if line.startswith("-") else FAINT if line[:2] == "@@" else DIM
        )
        out += wrapped(line, width, style, "│ ", FAINT)
    return out


def _seg(text: str, style: str) -> Segment:
    return Segment(text, Style.parse(style))
