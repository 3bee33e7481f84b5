"""Figures of a session, folded from durable events: what headless prints and `/speed` shows. Unknown is None."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.core.repeats import duplicates
from agent.events import AssistantAdded, CallPlanned, Compacted, DurableEvent, ResultAdded, TurnEnded, TurnStarted
from agent.messages import KINDS, Share, Timings, Usage


def _sum(values: Iterable[float | int | None]) -> Any:
    known = [v for v in values if v is not None]
    return sum(known) if known else None


def _rounded(value: float | None, digits: int = 3) -> float | None:
    return None if value is None else round(value, digits)


@dataclass(frozen=True, slots=True)
class Request:
    """One request to the model, with the seconds it took and those of the tools it led to."""

    usage: Usage
    timings: Timings
    seconds: float
    tools: list[float] = field(default_factory=list[float])


@dataclass(frozen=True, slots=True)
class Figures:
    """Tokens, and seconds of what the time went to. `prompt` counts what the server was given, `cached` what of it was
    in its cache; `decoded` is its own count of what it wrote. `wall`: all of the time; `waited`: for the user."""

    requests: int = 0
    prompt: int | None = None
    cached: int | None = None
    generated: int | None = None
    decoded: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    rate: float | None = None
    wall: float | None = None
    prefill: float | None = None
    decode: float | None = None
    tools: float | None = None
    waited: float = 0.0
    split: tuple[Share, ...] = ()

    @property
    def acceptance(self) -> float | None:
        """Accepted / drafted, 0..1."""
        return self.accepted / self.drafted if self.drafted and self.accepted is not None else None

    @property
    def tokens_per_step(self) -> float | None:
        """Each pass through the model yields one token of its own besides the accepted drafts."""
        passes = self.decoded - self.accepted if self.decoded is not None and self.accepted is not None else 0
        return self.decoded / passes if passes and self.decoded is not None else None

    @property
    def cache_share(self) -> float | None:
        return self.cached / self.prompt if self.prompt and self.cached is not None else None

    @property
    def wall_rate(self) -> float | None:
        """Generated tokens for each second that passed, whatever it was spent on but waiting for the user."""
        spent = (self.wall or 0.0) - self.waited
        return self.generated / spent if self.generated and spent > 0 else None

    @property
    def other(self) -> float | None:
        """Seconds that are none of the others': the engine's start, the network, the client. With them the parts are
        the whole."""
        if self.wall is None or self.prefill is None or self.decode is None:
            return None
        return max(0.0, self.wall - self.prefill - self.decode - (self.tools or 0.0) - self.waited)

    def as_json(self) -> dict[str, Any]:
        """The object of the headless contract."""
        return {
            "requests": self.requests,
            "prompt_tokens": self.prompt,
            "cached_tokens": self.cached,
            "generated_tokens": self.generated,
            "draft_tokens": self.drafted,
            "accepted_tokens": self.accepted,
            "acceptance": _rounded(self.acceptance, 4),
            "tokens_per_step": _rounded(self.tokens_per_step, 2),
            "tokens_per_second": _rounded(self.rate, 2),
            "seconds": {
                "wall": _rounded(self.wall),
                "prefill": _rounded(self.prefill),
                "decode": _rounded(self.decode),
                "tools": _rounded(self.tools),
            },
        }


@dataclass(frozen=True, slots=True)
class TurnFigures:
    """One turn. `title`: the user's first line; `steps`: its requests. A compaction that the user asked for between two
    turns counts as one with number 0."""

    number: int
    title: str
    outcome: str
    total: Figures
    steps: tuple[Figures, ...]


def _known(first: int | None, second: int | None) -> int | None:
    return second if first is None else first


def _figures(requests: Sequence[Request], wall: float | None, waited: float = 0.0) -> Figures:
    timings = [r.timings for r in requests]
    decoded, milliseconds = _sum(t.predicted_n for t in timings), _sum(t.predicted_ms for t in timings)
    # the first token of a reply belongs to the prompt phase, so one reply's rate is the server's own figure
    rate = timings[0].predicted_per_second if len(timings) == 1 else None
    if rate is None and decoded and milliseconds:
        rate = decoded / milliseconds * 1000
    prefill = _sum(t.prompt_ms for t in timings)
    return Figures(
        requests=len(requests),
        prompt=_sum(r.usage.prompt_tokens for r in requests),
        cached=_sum(_known(r.usage.cached_tokens, r.timings.cache_n) for r in requests),
        generated=_sum(_known(r.usage.generated_tokens, r.timings.predicted_n) for r in requests),
        decoded=decoded,
        drafted=_sum(t.draft_n for t in timings),
        accepted=_sum(t.draft_n_accepted for t in timings),
        rate=rate,
        wall=wall,
        prefill=None if prefill is None else prefill / 1000,
        decode=None if milliseconds is None else milliseconds / 1000,
        tools=_sum(s for r in requests for s in r.tools),
        waited=waited,
        split=_joined(s for t in timings for s in t.split),
    )


def _joined(shares: Iterable[Share]) -> tuple[Share, ...]:
    found: dict[str, list[int]] = {}
    for share in shares:
        counts = found.setdefault(share.kind, [0, 0, 0])
        counts[:] = [counts[0] + share.tokens, counts[1] + share.drafted, counts[2] + share.accepted]
    return tuple(Share(kind, *found[kind]) for kind in KINDS if kind in found)


def _requests(events: Iterable[DurableEvent]) -> list[Request]:
    found: list[Request] = []
    for event in events:
        match event:
            case AssistantAdded(message=message, seconds=seconds):
                found.append(Request(message.usage, message.timings, seconds))
            case Compacted(usage=usage, timings=timings, seconds=seconds) if seconds:
                found.append(Request(usage, timings, seconds))
            case ResultAdded(seconds=seconds) if found:
                found[-1].tools.append(seconds)
            case _:
                pass
    return found


def steps(events: Iterable[DurableEvent]) -> list[Figures]:
    """One a request; its wall seconds are those of the request."""
    return [_figures([r], r.seconds) for r in _requests(events)]


def total(events: Iterable[DurableEvent]) -> Figures:
    """All requests together; wall seconds are those of the turns."""
    past = list(events)
    ends = [e for e in past if isinstance(e, TurnEnded)]
    return _figures(_requests(past), _sum(e.seconds for e in ends), sum(e.waited for e in ends))


def turns(events: Iterable[DurableEvent]) -> list[TurnFigures]:
    """In order; a turn that has not ended yet is left out."""
    found: list[TurnFigures] = []
    current: list[DurableEvent] = []
    first: TurnStarted | None = None
    for event in events:
        current.append(event)
        match event:
            case TurnStarted(steered=False):
                first, current = event, [event]
            case TurnEnded() if first is not None:
                title = first.message.text.strip().split("\n", 1)[0]
                whole = _figures(_requests(current), event.seconds, event.waited)
                found.append(TurnFigures(event.turn, title, event.outcome, whole, tuple(steps(current))))
                first = None
            case Compacted(seconds=seconds) if first is None and seconds:
                found.append(TurnFigures(0, "compaction", "done", _figures(_requests([event]), seconds), ()))
            case _:
                pass
    return found


def call_figures(events: Iterable[DurableEvent]) -> dict[str, int]:
    """What it took to read the calls of a session. `repaired`: arguments that were not JSON; `coerced`: not as the
    schema says; `recovered`: the call stood in the answer as text; `refused`: could not be read; `duplicates`: said
    twice in one reply; `repeated`: turns that ended because the same came again and again."""
    counts: dict[str, int] = dict.fromkeys(
        ("calls", "repaired", "coerced", "recovered", "refused", "duplicates", "repeated"), 0
    )
    for event in events:
        match event:
            case AssistantAdded(message=message):
                counts["calls"] += len(message.calls)
                counts["recovered"] += sum(c.recovered for c in message.calls)
                counts["duplicates"] += len(duplicates(message.calls))
            case CallPlanned(mending=mending):
                for step in mending:
                    counts[step] += 1
            case TurnEnded(kind="repeated"):
                counts["repeated"] += 1
            case _:
                pass
    return counts
