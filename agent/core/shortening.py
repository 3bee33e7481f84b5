"""A conversation made shorter: which messages go, what stands in their place, and what of it the model is shown when it
is asked for a summary. Pure; sizes are estimates that `weigh` gives, in tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import TypeAlias

from agent.core.budget import FRAME, Allowance, Weigh, counted, cut, text_of, weight
from agent.core.remains import Remains, last_lines
from agent.messages import AssistantMessage, Message, Timings, ToolMessage, Usage, UserMessage

HEAD = "summary"  # how the id of the message begins that stands for what was dropped
RESULT_LEAST = 40  # tokens; less of an output says nothing
LINES_MOST = 30  # of a list
SAID_MOST = 100  # messages of the user; behind so many, "go on" and "yes" say nothing any more
SAID_LEAST = 40  # tokens of a user's message that does not fit whole

BEGIN = "[This conversation was shortened to fit into the context. What follows is all that is left of it so far.]"
GO_ON = "[Go on from here. Look again at files before you change them: what you had read of them is gone.]"
ASK = """Stop the work for a moment. This conversation must be shortened: after this, you will know nothing of it but \
the user's own messages, which are kept, and what you write now. Write for yourself what you need to go on:

1. What is done: files with their paths, commands that worked, decisions and the reasons for them.
2. What you found out: names, numbers, errors and their causes, exactly.
3. How things stand now, and what comes next.

No greeting and no tool call; only what is true, in at most {words} words.{focus}"""

ASK_BRIEFLY = """Sum up this conversation for yourself; you will go on from that and the user's messages alone: what \
is done, what you found out, what comes next. No tool call, at most {words} words.{focus}"""
SMALL = 4096  # tokens of a context in which a long question would take the room of the answer

Group: TypeAlias = list[Message]


def ask_text(n_ctx: int, tokens: int, focus: str) -> str:
    """Asks for a summary of at most about so many tokens."""
    about = f" Pay most attention to: {focus}" if focus else ""
    return (ASK if n_ctx > SMALL else ASK_BRIEFLY).format(words=max(40, tokens * 6 // 10 // 10 * 10), focus=about)


def groups(messages: Sequence[Message]) -> list[Group]:
    """What belongs together: a user's message, or a reply with the results of its calls."""
    found: list[Group] = []
    for message in messages:
        if isinstance(message, ToolMessage) and found:
            found[-1].append(message)
        else:
            found.append([message])
    return found


def is_head(message: Message) -> bool:
    return isinstance(message, UserMessage) and message.id.startswith(HEAD)


# ---- what the model is asked about
def view_for_summary(messages: Sequence[Message], fixed: int, room: int, weigh: Weigh) -> tuple[Message, ...]:
    """The longest beginning of the conversation that fits into `room` tokens (`fixed` of them are system prompt and
    tools), so that the server finds it in its cache. Outputs that it has not read yet may be cut. Empty when nothing
    fits, or when nothing but the user's own words does."""
    left = groups(messages)
    while left:
        kept = tuple(chain.from_iterable(left))
        known = counted(kept)
        read = kept[: len(kept) - len(known.since)]
        since = _squeezed(known.since, room - (fixed if known.tokens is None else known.tokens), weigh)
        if since is not None:
            return (*read, *since) if any(isinstance(m, AssistantMessage) for m in kept) else ()
        left.pop()
    return ()


def _squeezed(messages: Sequence[Message], room: int, weigh: Weigh) -> tuple[Message, ...] | None:
    """The same messages with results cut so that all fit; None where that would leave too little of them."""
    if weight(messages, weigh) <= room:
        return tuple(messages)
    results = [m for m in messages if isinstance(m, ToolMessage)]
    room -= weight([m for m in messages if not isinstance(m, ToolMessage)], weigh)
    share = room // len(results) - FRAME if results else 0
    if share < RESULT_LEAST:
        return None
    return tuple(replace(m, text=cut(m.text, share, weigh)) if isinstance(m, ToolMessage) else m for m in messages)


# ---- what is left
def split(messages: Sequence[Message], allowance: Allowance, weigh: Weigh) -> tuple[list[Message], list[Message]]:
    """(what is dropped, what is kept). Kept are the newest groups that fit; of the last one, which the model has yet to
    answer, the results are cut where they are too long, and a user's message is never touched."""
    found = groups(messages)
    kept: list[Group] = []
    left = allowance.tail
    for group in reversed(found):
        if is_head(group[0]):
            break
        if not kept and (len(group) > 1 or isinstance(group[0], UserMessage)):
            whole = isinstance(group[0], UserMessage)
            fitted = tuple(group) if whole else _squeezed(group, left, weigh)
        else:
            fitted = tuple(group) if weight(group, weigh) <= left else None
        if fitted is None:
            break
        kept.insert(0, [_uncounted(m) for m in fitted])
        left -= weight(fitted, weigh)
    dropped = found[: len(found) - len(kept)]
    return list(chain.from_iterable(dropped)), list(chain.from_iterable(kept))


def _uncounted(message: Message) -> Message:
    """Its figures were of a prompt that is no more."""
    return replace(message, usage=Usage(), timings=Timings()) if isinstance(message, AssistantMessage) else message


def head(found: Remains, summary: str, tail: Sequence[Message], allowance: Allowance, weigh: Weigh) -> str:
    """The text that stands for what was dropped."""
    inside = {m.id for m in tail if isinstance(m, UserMessage)}
    said = [m for m in found.said if m.id not in inside]
    shown = {text_of(m) for m in tail}
    failed, output = found.failure
    facts = [
        ("The plan", found.plan),
        ("The list of tasks", found.todos),
        *((f"Skill in use: {name}", text) for name, text in found.skills.items()),
        (f"The last failure: {failed}", "" if output in shown else output),
    ]
    share = allowance.facts // max(1, sum(bool(text.strip()) for _, text in facts))
    parts = [
        ("What the user said, word for word", _words(said, allowance.said, weigh)),
        ("Summary of the work so far", cut(summary or found.summary, allowance.summary * 5 // 4, weigh)),
        ("What was done", "" if summary else last_lines(list(found.done), LINES_MOST)),
        ("Files changed so far", last_lines(list(found.changed), LINES_MOST)),
        *((title, cut(text, share, weigh, end_only=text is output)) for title, text in facts),
    ]
    return "\n\n".join([BEGIN, *(f"## {title}\n\n{text.strip()}" for title, text in parts if text.strip()), GO_ON])


def _words(said: Sequence[UserMessage], allowance: int, weigh: Weigh) -> str:
    """The newest whole, the older ones cut when they must be; the very first one is the task, so it comes second."""
    order = [*said[-1:], *said[:-1][:1], *reversed(said[1:-1][-SAID_MOST:])]
    texts: dict[str, str] = {}
    for message in order:
        size = weigh(message.text)
        if size > allowance and texts:
            if allowance < SAID_LEAST:
                break
            texts[message.id] = cut(message.text, max(SAID_LEAST, allowance // 2), weigh)
        else:
            texts[message.id] = message.text
        allowance -= weigh(texts[message.id])
    lines = [f"{n}. {texts[m.id].strip()}" for n, m in enumerate(said, 1) if m.id in texts]
    left = len(said) - len(lines)
    return "\n".join([*([f"({left} others did not fit here.)"] if left else []), *lines])


def shorten(
    messages: Sequence[Message],
    found: Remains,
    summary: str,
    head_id: str,
    allowance: Allowance,
    weigh: Weigh,
) -> tuple[int, tuple[Message, ...]]:
    """(how many messages were dropped, the conversation that is left)."""
    dropped, tail = split(messages, allowance, weigh)
    if not dropped:
        return 0, tuple(tail)
    return len(dropped), (UserMessage(head_id, head(found, summary, tail, allowance, weigh)), *tail)
