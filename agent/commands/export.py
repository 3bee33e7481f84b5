"""A session as Markdown that a person reads or shares. Pure: events in, text out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from agent.events import (
    AssistantAdded,
    CallPlanned,
    Compacted,
    DurableEvent,
    ResultAdded,
    ShellEnded,
    TurnEnded,
    TurnStarted,
)


def markdown(events: Iterable[DurableEvent]) -> str:
    """Messages as they were written, tool calls with what they said. Thinking is left out."""
    return "\n\n".join(_parts(events)) + "\n"


def _parts(events: Iterable[DurableEvent]) -> Iterator[str]:
    plans: dict[str, CallPlanned] = {}
    for event in events:
        match event:
            case TurnStarted(message=message):
                yield f"## User\n\n{message.shown or message.text}"
            case AssistantAdded(message=message) if message.text.strip():
                yield f"## Assistant\n\n{message.text.strip()}"
            case CallPlanned(call_id=call_id):
                plans[call_id] = event
            case ResultAdded():
                plan = plans.pop(event.call_id, None)
                yield _call(plan, event)
            case ShellEnded(command=command, text=text):
                yield f"### ! (you)\n\n{fenced(command, 'sh')}\n\n{fenced(text)}"
            case Compacted(summary=summary):
                yield f"## Compacted\n\n{summary}"
            case TurnEnded(outcome=outcome, detail=detail) if outcome != "done":
                yield f"*{outcome}{': ' + detail if detail else ''}*"
            case _:
                pass


def _call(plan: CallPlanned | None, result: ResultAdded) -> str:
    title = (plan.command or plan.title) if plan else result.tool
    failed = " (failed)" if result.failed else ""
    parts = [f"### {result.tool}{failed}", fenced(title, "sh" if plan and plan.command else "")]
    if plan and plan.preview and plan.kind == "edit":
        parts.append(fenced(plan.preview, "diff"))
    elif result.text.strip():
        parts.append(fenced(result.text))
    return "\n\n".join(parts)


def fenced(text: str, language: str = "") -> str:
    """A code block that holds whatever fences stand in `text`."""
    longest = max((len(run) for line in text.splitlines() if (run := _ticks(line))), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _ticks(line: str) -> str:
    bare = line.lstrip()
    return bare[: len(bare) - len(bare.lstrip("`"))]
