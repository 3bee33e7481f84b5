"""Why part of a prompt was read again: each planted break is named for what it is."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from agent.core.cache import Reading, compare, held
from agent.events import AssistantAdded, Endpoint
from agent.messages import AssistantMessage, Timings

Body = dict[str, Any]


def tool(name: str) -> Body:
    parameters = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    return {"type": "function", "function": {"name": name, "description": f"Does {name}.", "parameters": parameters}}


def calls(arguments: str) -> list[Body]:
    return [{"id": "c1", "type": "function", "function": {"name": "read", "arguments": arguments}}]


def conversation() -> Body:
    """What a request of a third turn holds."""
    return {
        "model": "m",
        "tools": [tool("bash"), tool("read")],
        "chat_template_kwargs": {"enable_thinking": False},
        "messages": [
            {"role": "system", "content": "You are an agent. Work in the folder and be brief about it."},
            {"role": "user", "content": "Look at the file and tell me what is in there."},
            {
                "role": "assistant",
                "content": "I look at it.",
                "reasoning_content": "They want the file.",
                "tool_calls": calls('{"path":"a.txt","limit":20}'),
            },
            {"role": "tool", "tool_call_id": "c1", "content": "The file has many words on many lines."},
            {"role": "assistant", "content": "It holds words."},
            {"role": "user", "content": "Thank you, go on then."},
        ],
    }


@dataclass(frozen=True)
class Plant:
    """`whose` and `says`: how it must be named."""

    name: str
    change: Callable[[Body], None]
    whose: str
    says: str


def _set(number: int, **fields: Any) -> Callable[[Body], None]:
    return lambda body: body["messages"][number].update(fields)


def _without_tool(body: Body) -> None:
    del body["tools"][0]


def _shuffled_tools(body: Body) -> None:
    body["tools"].reverse()


def _described_anew(body: Body) -> None:
    body["tools"][1]["function"]["description"] = "Does read, by now."


def _late_tool(body: Body) -> None:
    body["tools"].append(tool("late"))


def _without_message(body: Body) -> None:
    del body["messages"][3:5]


def _thinking(body: Body) -> None:
    body["chat_template_kwargs"]["enable_thinking"] = True


PLANTS = (
    Plant(
        "system prompt with a clock",
        _set(0, content="You are an agent. It is 10:42. Work in the folder and be brief about it."),
        "system",
        'the system prompt, from character 18: "Work in the folder',
    ),
    Plant("late tool", _late_tool, "tools", "the tool block: late came in"),
    Plant("lost tool", _without_tool, "tools", "the tool block: bash went out"),
    Plant("tools in another order", _shuffled_tools, "tools", "the tools are in another order"),
    Plant("tool described anew", _described_anew, "tools", "description of read, from character 9"),
    Plant("arguments in another order", _set(2, tool_calls=calls('{"limit":20,"path":"a.txt"}')), "message",
          "message 2 (assistant), call 1: its arguments are in another order (limit, path instead of path, limit)"),
    Plant("arguments serialised anew", _set(2, tool_calls=calls('{"path": "a.txt", "limit": 20}')), "message",
          "message 2 (assistant), call 1: its arguments are written in another way"),
    Plant("text beside a call", _set(2, content=""), "message", 'message 2 (assistant), from character 0: "I look'),
    Plant("thoughts dropped", _set(2, reasoning_content=""), "message",
          "message 2 (assistant), its thoughts were dropped"),
    Plant("tool result cut", _set(3, content="The file has […]"), "message",
          'message 3 (tool), from character 13: "many'),
    Plant("role", _set(4, role="user"), "message", "message 4 (assistant), its role became user"),
    Plant("messages taken out", _without_message, "message", "message 3 (tool), taken out with 1 more"),
    Plant("thinking switched", _thinking, "thinking", "thinking was switched on"),
    Plant("model", lambda body: body.update(model="other"), "server", "another model: other instead of m"),
)  # fmt: skip


@pytest.mark.parametrize("plant", PLANTS, ids=lambda p: p.name)
def test_a_planted_break_is_named(plant: Plant) -> None:
    before, after = conversation(), conversation()
    plant.change(after)
    found = compare(before, after)
    assert found is not None and found.whose == plant.whose and plant.says in found.what, found


def test_messages_gone_from_the_end_or_replaced_are_named_so() -> None:
    cut, other = conversation(), conversation()
    del cut["messages"][-1]
    other["messages"][3] = {"role": "user", "content": "Something else."}
    assert (found := compare(conversation(), cut)) and found.what == "message 5 (user), taken out"
    assert (found := compare(conversation(), other)) and "one of user stands in its place" in found.what


def test_what_only_grows_is_no_break() -> None:
    before, after = conversation(), conversation()
    after["messages"] += [{"role": "assistant", "content": "Yes."}, {"role": "user", "content": "Good."}]
    assert compare(before, after) is None
    joined = conversation()
    joined["messages"][-1]["content"] += "\n\nAnd this as well."  # nobody had answered
    assert compare(before, joined) is None


# ---- a session's requests, with what the server counts
def reply(cached: int, prompt: int, generated: int = 20) -> AssistantMessage:
    return AssistantMessage("m1", "x", timings=Timings(cache_n=cached, prompt_n=prompt - cached, predicted_n=generated))


def grown(body: Body) -> Body:
    more = copy.deepcopy(body)
    more["messages"] += [{"role": "assistant", "content": "x"}, {"role": "user", "content": "next"}]
    return more


def endpoint(rewrites: tuple[str, ...] | None, url: str = "http://a") -> Endpoint:
    return Endpoint(url, "key", "m", rewrites=rewrites)


def two(cached: int, rewrites: tuple[str, ...] | None, move: bool = False) -> Reading:
    """A reading after a first request of 500 tokens, of which 519 are held."""
    reading = Reading()
    reading.server(endpoint(rewrites))
    assert reading.judge(conversation(), reply(0, 500)) is None
    if move:
        reading.server(endpoint(rewrites, "http://b"))
    return reading


def test_a_cache_that_holds_is_no_break() -> None:
    assert two(519, ()).judge(grown(conversation()), reply(519, 560)) is None
    assert two(515, ()).judge(grown(conversation()), reply(515, 560)) is None, "a few tokens are always read again"


@pytest.mark.parametrize(
    ("cached", "rewrites", "move", "whose", "says"),
    [
        (490, ("reply",), False, "template", "begins a reply in history otherwise than the model wrote it"),
        (490, (), False, "template", "the last reply is not rendered as the model wrote it"),
        (0, (), False, "server", "another conversation took its place"),
        (0, (), True, "server", "another engine answers: its cache was empty"),
    ],
)
def test_the_same_bytes_read_again_are_the_templates_or_the_servers(
    cached: int, rewrites: tuple[str, ...], move: bool, whose: str, says: str
) -> None:
    found = two(cached, rewrites, move).judge(grown(conversation()), reply(cached, 560))
    assert found and (found.whose, found.tokens) == (whose, 519 - cached) and says in found.what


def test_thinking_is_to_blame_only_where_the_template_moves_the_beginning_for_it() -> None:
    switched = grown(conversation())
    _thinking(switched)
    moved = two(0, ("switch",)).judge(switched, reply(10, 560))
    assert moved and moved.whose == "thinking"
    kept = two(0, ()).judge(switched, reply(10, 560))
    assert kept and kept.whose == "server"


def test_a_compacted_conversation_is_a_new_beginning_and_not_a_fault() -> None:
    reading = two(519, ())
    reading.epoch()
    found = reading.judge({**conversation(), "messages": conversation()["messages"][:2]}, reply(200, 300))
    assert found and found.whose == "compaction"
    assert reading.judge(grown(conversation()), reply(319, 340)) is None


def test_a_resumed_session_knows_what_the_engine_should_still_hold() -> None:
    past = [AssistantAdded(1, reply(0, 500)), AssistantAdded(1, reply(519, 560))]
    reading = Reading(held(past))
    found = reading.judge(conversation(), reply(3, 600))
    assert found and found.whose == "server" and "since this session was opened" in found.what
    assert Reading(held(past)).judge(conversation(), reply(579, 600)) is None


def test_a_reply_of_which_nothing_was_counted_says_nothing() -> None:
    reading = two(519, ())
    assert reading.judge(grown(conversation()), AssistantMessage("m2", "half", finish="interrupted")) is None
    found = reading.judge(grown(grown(conversation())), reply(400, 600))
    assert found and found.tokens == 119, "what was held before it should still be"
