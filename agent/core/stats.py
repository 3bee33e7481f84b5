"""Figures of a session, folded from durable events: what headless prints and `/speed` shows. Unknown is None."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agent.core.repeats import duplicates
from agent.events import AssistantAdded, CallPlanned, DurableEvent, ResultAdded, TurnEnded
from agent.messages import AssistantMessage


def _sum(values: Iterable[float | int | None]) -> Any:
    known = [v for v in values if v is not None]
    return sum(known) if known else None


def _seconds(ms: float | None) -> float | None:
    return None if ms is None else round(ms / 1000, 3)


def _figures(replies: list[AssistantMessage], wall: float | None, tools: float | None) -> dict[str, Any]:
    timings = [r.timings for r in replies]
    drafted, accepted = _sum(t.draft_n for t in timings), _sum(t.draft_n_accepted for t in timings)
    decoded = _sum(t.predicted_n for t in timings)
    decode = _sum(t.predicted_ms for t in timings)
    # the first token of a reply belongs to the prompt phase, so one reply's rate is the server's own figure
    rate = timings[0].predicted_per_second if len(timings) == 1 else None
    if rate is None and decoded and decode:
        rate = decoded / decode * 1000
    passes = decoded - (accepted or 0) if decoded is not None and accepted is not None else None
    return {
        "requests": len(replies),
        "prompt_tokens": _sum(r.usage.prompt_tokens for r in replies),
        "cached_tokens": _sum(
            r.usage.cached_tokens if r.usage.cached_tokens is not None else r.timings.cache_n for r in replies
        ),
        "generated_tokens": _sum(
            r.usage.generated_tokens if r.usage.generated_tokens is not None else r.timings.predicted_n for r in replies
        ),
        "draft_tokens": drafted,
        "accepted_tokens": accepted,
        "acceptance": round(accepted / drafted, 4) if drafted and accepted is not None else None,
        "tokens_per_step": round(decoded / passes, 2) if passes else None,
        "tokens_per_second": round(rate, 2) if rate is not None else None,
        "seconds": {
            "wall": None if wall is None else round(wall, 3),
            "prefill": _seconds(_sum(t.prompt_ms for t in timings)),
            "decode": _seconds(decode),
            "tools": None if tools is None else round(tools, 3),
        },
    }


def step_figures(events: Iterable[DurableEvent]) -> list[dict[str, Any]]:
    """One object a request, with the tools it led to."""
    steps: list[tuple[AssistantAdded, list[float]]] = []
    for event in events:
        if isinstance(event, AssistantAdded):
            steps.append((event, []))
        elif isinstance(event, ResultAdded) and steps:
            steps[-1][1].append(event.seconds)
    return [_figures([added.message], added.seconds, _sum(tools)) for added, tools in steps]


def total_figures(events: Iterable[DurableEvent]) -> dict[str, Any]:
    """All requests together; wall seconds are those of the turns."""
    past = list(events)
    replies = [e.message for e in past if isinstance(e, AssistantAdded)]
    return _figures(
        replies,
        _sum(e.seconds for e in past if isinstance(e, TurnEnded)),
        _sum(e.seconds for e in past if isinstance(e, ResultAdded)),
    )


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
