"""The first run as strips: what was found, what is proposed, what it takes, how far it is. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from agent.progress import Phase, size, span
from agent.survey import Offer, Survey
from agent.tui import theme
from agent.tui.cells.paper import BLANK, clean, one_line, prose
from agent.tui.steps import Step, Steps

Mode: TypeAlias = Literal["looking", "choosing", "address", "working", "stopping", "stopped", "failed"]
WIDEST = 92  # cells; longer lines are hard to read
MARGIN = 2
LABEL = 13  # cells of the names of facts and steps with their mark, and their gap
NARROW = 52  # cells below which facts come close to their names, and costs are short
NARROW_BAR = 64  # cells below which a bar and its figures stand on two rows
WORDS = 6  # last words of an engine that are shown
SLOW, FAST = 100e6 / 8, 1e9 / 8  # bytes a second of two usual connections
MARKS: dict[str, tuple[str, Style]] = {
    "waiting": ("○", theme.faint),
    "running": ("◐", theme.accent),
    "done": ("✓", theme.good),
    "failed": ("✗", theme.bad),
}
KEYS: dict[Mode, tuple[tuple[str, str], ...]] = {
    "looking": (("Esc", "leave"),),
    "choosing": (("Enter", "get it ready"), ("↑↓", "choose"), ("Esc", "leave")),
    "address": (("Enter", "attach"), ("Esc", "back")),
    "working": (("Esc", "stop; what has come stays"),),
    "stopping": (),
    "stopped": (("Enter", "go on"), ("↑↓", "choose"), ("Esc", "leave")),
    "failed": (("Enter", "try again"), ("↑↓", "choose"), ("Esc", "leave")),
}


@dataclass(slots=True)
class SetupView:
    """chosen: index of an offer; one more: a server at an address. failure: a sentence; words: an engine's last."""

    mode: Mode = "looking"
    survey: Survey | None = None
    chosen: int = 0
    steps: Steps = field(default_factory=lambda: Steps(None))
    failure: str = ""
    words: Sequence[str] = ()

    @property
    def offer(self) -> Offer | None:
        """None: a server at an address."""
        offers = self.survey.offers if self.survey else ()
        return offers[self.chosen] if self.chosen < len(offers) else None

    @property
    def count(self) -> int:
        return len(self.survey.offers) + 1 if self.survey else 0


def setup_strips(view: SetupView, width: int, now: float) -> tuple[list[Strip], int]:
    """At most `width` cells each; and the row that must be in sight."""
    room = max(12, min(WIDEST, width - 2 * MARGIN))
    rows: list[list[Segment]] = [[], *_title(view, room)]
    focus = 0
    if view.survey is None:
        rows += [[], [Segment("looking at this machine", theme.quiet)]]
    elif view.mode in ("working", "stopping"):
        rows += [[], *_about(view.offer, room), []]
        focus = len(rows)
        rows += [row for step in view.steps.rows for row in _step(step, room, now)]
    else:
        rows += [[], *(row for fact in view.survey.found for row in _fact(*fact, room)), []]
        focus = len(rows) + view.chosen
        rows += [*_offers(view, view.survey, room), []]
        rows += [*_about(view.offer, room), *_why(view, view.survey, room)]
        if view.offer is not None and not view.offer.obstacle:
            rows += [[], *(row for step in view.steps.rows for row in _step(step, room, now))]
    if view.failure:
        rows += [[], *prose(clean(view.failure), room, theme.bad)]
        rows += [[Segment(one_line(word, room), theme.faint)] for word in view.words[-WORDS:]]
    margin = Segment(" " * MARGIN)
    return [Strip([margin, *row]).crop(0, width) if row else BLANK for row in rows], focus


def keys_strip(mode: Mode, width: int) -> Strip:
    """What the keys do; the last ones give way where it is narrow."""
    segments: list[Segment] = [Segment(" " * MARGIN)]
    used = MARGIN
    for number, (key, words) in enumerate(KEYS[mode]):
        gap = "   " if number else ""
        used += cell_len(f"{gap}{key} {words}")
        if used > width:
            break
        segments += [Segment(gap), Segment(key, theme.bright), Segment(f" {words}", theme.quiet)]
    if mode == "stopping":
        segments.append(Segment("stopping", theme.quiet))
    return Strip(segments)


def _title(view: SetupView, room: int) -> Iterator[list[Segment]]:
    about = {"working": "getting ready", "stopping": "getting ready"}.get(view.mode, "set up")
    row = [Segment("▸ ", theme.accent_bold), Segment("dflash-agent", theme.bold)]
    yield [*row, Segment(f"  {about}", theme.quiet)] if room > 24 else row


def _fact(name: str, words: str, room: int) -> Iterator[list[Segment]]:
    label = LABEL if room >= NARROW else LABEL - 4
    for number, row in enumerate(prose(clean(words), room - label, theme.ink)):
        yield [Segment(f"{name if number == 0 else '':<{label}}", theme.quiet), *row]


def _offers(view: SetupView, survey: Survey, room: int) -> Iterator[list[Segment]]:
    names = [*(o.profile for o in survey.offers), "a server"]
    titles = [*(o.title for o in survey.offers), "one that runs already, at an address"]
    costs = [*(_cost(o, short=room < NARROW) for o in survey.offers), ""]
    column = min(max(cell_len(n) for n in names) + 2, max(10, room * 2 // 3))
    for number, (name, title, cost) in enumerate(zip(names, titles, costs, strict=True)):
        here = number == view.chosen
        able = number >= len(survey.offers) or not survey.offers[number].obstacle
        mark = Segment("❯ " if here else "  ", theme.accent_bold)
        shown = one_line(name, column - 1)
        style = theme.accent_bold if here else theme.ink if able else theme.faint
        left = room - 2 - column
        aside = cost if cell_len(cost) <= left else ""
        words = title if cell_len(title) + 2 + cell_len(aside) <= left else ""
        gap = max(0, left - cell_len(words) - cell_len(aside))
        quiet = theme.quiet if able else theme.faint
        yield [
            mark,
            Segment(shown + " " * (column - cell_len(shown)), style),
            Segment(words + " " * gap, quiet),
            Segment(aside, quiet),
        ]


def _cost(offer: Offer, *, short: bool) -> str:
    if offer.obstacle:
        return "not here" if short else "not on this machine"
    engine = next((f"engine {n.effort}" for n in offer.needs if n.kind == "engine" and not n.here), "")
    engine = "" if short and offer.to_fetch else engine
    return ", ".join(x for x in (size(offer.to_fetch) if offer.to_fetch else "", engine) if x) or "ready"


def _about(offer: Offer | None, room: int) -> list[list[Segment]]:
    if offer is None:
        words = "A server that runs already: llama-server, vLLM, SGLang or any other that speaks OpenAI's protocol."
        return prose(words, room, theme.ink)
    parts = [offer.title, offer.quantisation, offer.drafting, f"context {offer.ctx:,} tokens" if offer.ctx else ""]
    return prose(clean(" · ".join(p for p in parts if p)), room, theme.bold)


def _why(view: SetupView, survey: Survey, room: int) -> Iterator[list[Segment]]:
    offer = view.offer
    if offer is None:
        return
    if offer.obstacle:
        yield from prose(clean(offer.obstacle), room, theme.warn)
        return
    if offer.profile == survey.proposed:
        yield from prose(clean(survey.why), room, theme.quiet)
    if offer.to_fetch >= 1e9:
        slow, fast = span(offer.to_fetch / SLOW), span(offer.to_fetch / FAST)
        words = f"{size(offer.to_fetch)} to fetch: {slow} at 100 Mbit/s, {fast} at 1 Gbit/s."
        yield from prose(words, room, theme.quiet)
    if offer.to_fetch > survey.free:
        words = f"Only {size(survey.free)} are free on this disk: make room, or set HF_HOME to another one."
        yield from prose(words, room, theme.warn)


def _step(step: Step, room: int, now: float) -> Iterator[list[Segment]]:
    mark, style = MARKS[step.state]
    phase = step.phase if step.state in ("running", "failed") else None
    aside = step.aside
    if step.state == "running":
        aside = span(now - step.begun) if now - step.begun >= 1 else ""
    name = clean(step.name)
    if phase is not None and (not phase.file or step.title == "Start"):
        name = clean(phase.words)  # which file it is stands there already
    left = room - LABEL
    aside = one_line(aside, max(1, left // 2))
    words = one_line(name, max(1, left - cell_len(aside) - 2))
    gap = max(1, left - cell_len(words) - cell_len(aside))
    ink = theme.ink if step.state in ("running", "failed") else theme.quiet
    yield [
        Segment(f"{mark} ", style),
        Segment(f"{step.title:<{LABEL - 2}}", theme.bright if step.state == "running" else theme.quiet),
        Segment(words + " " * gap, ink),
        Segment(aside, theme.faint if step.state != "running" else theme.quiet),
    ]
    if phase is not None and step.state == "running":
        yield from _progress(step, room)


def _progress(step: Step, room: int) -> Iterator[list[Segment]]:
    phase = step.phase
    assert phase is not None
    indent = Segment(" " * LABEL)
    inner = room - LABEL
    if phase.share is None:
        if phase.file and step.title != "Start" and not phase.words.endswith(phase.file):
            yield from ([indent, *row] for row in prose(clean(phase.words), inner, theme.quiet))
        return
    if inner < NARROW_BAR:
        if room < NARROW:
            indent, inner = Segment("  "), room - 2
        yield [indent, *bar(phase.share, inner)]
        yield [indent, Segment(_figures(phase, inner), theme.quiet)]
        return
    length = inner - 44  # the longest figures: 16.45 of 17.40 GB · 1.25 GB/s · 1 h 59 min left
    yield [indent, *bar(phase.share, length), Segment(f"  {_figures(phase, inner - length - 2)}", theme.quiet)]


def _figures(phase: Phase, room: int) -> str:
    """As many as fit; how long it takes is worth more than how fast it is."""
    figures = phase.figures
    for shown in (figures, (*figures[:1], *figures[2:]), figures[:1]):
        if cell_len(words := " · ".join(shown)) <= room:
            return words
    return ""


def bar(share: float, length: int) -> list[Segment]:
    """A thin line of `length` cells, exact to half a cell."""
    halves = round(max(0.0, min(1.0, share)) * length * 2)
    full, half = divmod(halves, 2)
    rest = length - full - half
    return [Segment("━" * full + "╸" * half, theme.accent), Segment("─" * rest, theme.line)]
