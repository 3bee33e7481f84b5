"""The status line, the last of the screen: a pure function of gauge, time and width, and the widget that shows it.
Parts drop from the right when it is narrow; what is allowed without a question (any mode but `ask`) goes last."""

from __future__ import annotations

import time

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.strip import Strip
from textual.widget import Widget

from agent.tui import figures, theme
from agent.tui.cells.paper import clean, console, one_line
from agent.tui.gauge import Gauge
from agent.tui.prefill import prefill_part

LEVELS = "▁▂▃▄▅▆▇█"
MODES = {"ask": theme.quiet, "accept-edits": theme.blue, "plan": theme.warn, "auto": theme.good}
DRAFTING = {"dflash": "DFlash", "mtp": "MTP", "ngram": "ngram"}
Part = tuple[str, Style]


def status_line(gauge: Gauge, label: str, now: float, width: int) -> Text:
    """At most `width` cells. `label`: what to call the model while no endpoint is known."""
    text = Text(" ", no_wrap=True, end="")
    for number, part in enumerate(_fitting(gauge, label, now, max(1, width - 2))):
        text.append("  " if number else "")
        for words, style in part:
            text.append(words, style)
    return text


def shows_mode(gauge: Gauge, label: str, now: float, width: int) -> bool:
    """Is there room for the permission mode?"""
    return _mode(gauge) in _fitting(gauge, label, now, max(1, width - 2))


def _fitting(gauge: Gauge, label: str, now: float, room: int) -> list[list[Part]]:
    """What goes on now is worth more than the model's name where there is no room for both."""
    kept = [] if gauge.mode == "ask" else [_mode(gauge)]
    parts = _parts(gauge, label, now, room - _cells(kept) - 2 * len(kept))
    if gauge.busy and len(parts) > 1 and _cells([*parts[:2], *(k for k in kept if k not in parts[:2])]) > room:
        del parts[0]
    while _cells(parts) > room and len(droppable := [p for p in parts if p not in kept]) > 1:
        parts.remove(droppable[-1])
    if _cells(parts) > room:
        left = room - _cells(kept) - 2 if kept else room
        cut = one_line("".join(x for x, _ in parts[0]), left) if left > 0 and parts[0] not in kept else ""
        parts = [[(cut, theme.ink)], *kept] if cut else kept
    return parts if _cells(parts) <= room else [[(one_line(gauge.mode, room), parts[0][0][1])]]


def _cells(parts: list[list[Part]]) -> int:
    return sum(cell_len(words) for part in parts for words, _ in part) + 2 * max(0, len(parts) - 1)


def _mode(gauge: Gauge) -> list[Part]:
    return [(gauge.mode, MODES.get(gauge.mode, theme.quiet))]


def _parts(gauge: Gauge, label: str, now: float, room: int) -> list[list[Part]]:
    busy = _server(gauge, now) or _activity(gauge, now, room)
    parts: list[list[Part]] = [_model(gauge, label)]
    if busy:
        parts.append(busy)
    if not busy or gauge.activity in ("writing", "tool", "asking"):
        parts += [*_speed(gauge, now), *_cache(gauge)]
    parts += _context(gauge)
    parts += _running(gauge)
    parts.append(_mode(gauge))
    if gauge.branch:
        parts.append([(one_line(gauge.branch, 30), theme.faint)])
    return [p for p in parts if p]


def _model(gauge: Gauge, label: str) -> list[Part]:
    endpoint = gauge.endpoint
    name = clean((endpoint.model if endpoint and endpoint.attached else "") or gauge.model or label)
    part: list[Part] = [(one_line(name.rpartition("/")[2].removesuffix(".gguf"), 28), theme.ink)]
    if endpoint and endpoint.speculative:  # what the server does, never what the profile wished
        part.append((f" ▸{DRAFTING.get(endpoint.rung, 'drafts')}", theme.accent))
    return part


def _server(gauge: Gauge, now: float) -> list[Part]:
    state = gauge.server
    if state is None or state.kind in ("ready", "stopped"):
        return []
    if state.kind == "failed":
        return [("engine failed", theme.bad)]
    phase = state.phase
    if phase is None:
        return [(state.kind, theme.blue), (f" {figures.clock(now - gauge.server_since)}", theme.quiet)]
    words = clean(phase.words)
    if phase.total:
        return [(f"{words} ", theme.blue), (" · ".join(phase.figures), theme.quiet)]
    return [(words, theme.blue), (f" {figures.clock(now - gauge.server_since)}", theme.quiet)]


def _activity(gauge: Gauge, now: float, room: int) -> list[Part]:
    elapsed = now - gauge.since
    match gauge.activity:
        case "waiting":
            return [(f"waiting {figures.clock(elapsed)}", theme.quiet)]
        case "writing" if gauge.silent(now):
            return [(f"waiting {figures.clock(now - gauge.heard)}", theme.warn)]
        case "compacting":
            so_far = f" · {gauge.words:,} words" if gauge.words else ""
            return [(f"compacting {figures.clock(elapsed)}{so_far}", theme.blue)]
        case "tool" | "idle" if any(p.asks is not None for p in gauge.processes):
            return [("waiting for you", theme.warn)]
        case "tool":
            return [(f"tool {figures.clock(elapsed)}", theme.blue)]
        case "asking":
            return [("waiting for you", theme.warn)]
        case "reading" if gauge.prefill:
            return prefill_part(gauge.prefill, now - gauge.prefill_at, room)
        case _:
            return []


def _running(gauge: Gauge) -> list[list[Part]]:
    """What runs in the background: where it listens, and how many listen nowhere."""
    ports = sorted({port for p in gauge.processes for port in p.ports})
    others = sum(not p.ports and p.asks is None for p in gauge.processes)
    part = [(" ".join(f":{port}" for port in ports[:3]), theme.good)] if ports else []
    if others:
        part.append((f"{' + ' if part else ''}{others} running", theme.quiet))
    return [part] if part else []


def _speed(gauge: Gauge, now: float) -> list[list[Part]]:
    parts: list[list[Part]] = []
    live = gauge.live_rate(now) if gauge.activity == "writing" else None
    final = figures.rate(gauge.timings[-1:])
    if live is not None:
        parts.append([(f"~{live:.0f} tok/s", theme.bright)])
    elif final is not None and gauge.activity != "writing":
        parts.append([(f"{final:.0f} tok/s", theme.bright)])
    endpoint = gauge.endpoint
    if endpoint and endpoint.wanted == "dflash" and endpoint.rung != "dflash":
        parts.append([("acc ", theme.quiet), ("OFF", theme.warn)])
    elif gauge.timings:
        share, per_step = figures.acceptance(gauge.timings)
        if share is None:
            parts.append([("acc n/a", theme.quiet)])
        else:
            parts.append([(f"acc {share:.0%}" + (f" ({per_step:.1f}/step)" if per_step else ""), theme.quiet)])
    return parts


def _cache(gauge: Gauge) -> list[list[Part]]:
    share = figures.cache_share(gauge.timings[-1:])
    return [] if share is None else [[(f"cache {share:.0%}", theme.quiet)]]


def _context(gauge: Gauge) -> list[list[Part]]:
    n_ctx = gauge.endpoint.n_ctx if gauge.endpoint else None
    if gauge.context is None:
        return []
    if not n_ctx:
        return [[(f"ctx {figures.compact(gauge.context)}", theme.quiet)]]
    share = min(1.0, gauge.context / n_ctx)
    style = theme.bad if share > 0.9 else theme.warn if share > 0.75 else theme.quiet
    words = f"ctx {figures.compact(gauge.context)}/{figures.compact(n_ctx)} "
    return [[(words, theme.quiet), (LEVELS[min(7, int(share * 8))], style)]]


class Status(Widget):
    """`hint`: shown instead of the figures while it is set."""

    def __init__(self, gauge: Gauge, label: str) -> None:
        super().__init__()
        self._gauge = gauge
        self.label = label
        self.hint = ""

    def render_line(self, y: int) -> Strip:
        width, base = self.size.width, self.rich_style
        if self.hint:
            strip = Strip([Segment(f" {one_line(self.hint, width - 2)}", theme.warn)])
        else:
            text = status_line(self._gauge, self.label, time.monotonic(), width)
            strip = Strip(list(text.render(console(width))))
        return strip.adjust_cell_length(width, base).apply_style(base)
