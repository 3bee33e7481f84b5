"""The conversation as entries: live and durable events must draw the same."""

from agent.events import (
    DURABLE,
    AssistantAdded,
    CallDelta,
    CallPlanned,
    PermissionAsked,
    PermissionSettled,
    ResultAdded,
    StepRetrying,
    StepStarted,
    TextDelta,
    ThinkingDelta,
    ToolProgress,
    TurnEnded,
    TurnStarted,
)
from agent.messages import AssistantMessage, ToolCall, UserMessage
from agent.tui.picture import Answer, Call, Picture

PLAN = CallPlanned("c1", "bash", "execute", "run", (), "ls")
LIVE = [
    TurnStarted(1, UserMessage("m1", "go")),
    StepStarted(1, 1, "m2"),
    ThinkingDelta("m2", "hm"),
    TextDelta("m2", "I will "),
    TextDelta("m2", "look"),
    CallDelta("m2", 0, "bash", '{"command": "ls"}'),
    AssistantAdded(1, AssistantMessage("m2", "I will look", "hm", (ToolCall("c1", "bash", '{"command": "ls"}'),))),
    PLAN,
    PermissionAsked("r1", PLAN),
    PermissionSettled("c1", "once", "user", "r1"),
    ToolProgress("c1", "a\nb"),
    ResultAdded("c1", "bash", "a\nb\n", False, 0.2),
    StepStarted(1, 2, "m3"),
    TextDelta("m3", "lost"),
    StepRetrying(1, 1, "the connection broke"),
    StepStarted(1, 2, "m4"),
    TextDelta("m4", "Two files."),
    AssistantAdded(1, AssistantMessage("m4", "Two files.")),
    TurnEnded(1, "done", seconds=3.0),
]


def folded(events) -> Picture:
    picture = Picture()
    for event in events:
        picture.apply(event)
    return picture


def test_at_rest_live_events_and_durable_events_draw_the_same():
    durable = folded(e for e in LIVE if isinstance(e, DURABLE))
    assert folded(LIVE).conversation == durable.conversation
    assert [type(e).__name__ for e in durable.conversation] == ["Said", "Thought", "Answer", "Call", "Answer", "End"]


def test_a_call_goes_through_its_states():
    states = []
    picture = Picture()
    for event in LIVE[:12]:
        picture.apply(event)
        states += [e.state for e in picture.entries if isinstance(e, Call)]
    assert [s for n, s in enumerate(states) if n == 0 or s != states[n - 1]] == [
        "writing", "planned", "asking", "running", "ok",
    ]  # fmt: skip


def test_a_question_is_open_until_it_is_settled():
    assert [a.request_id for a in folded(LIVE[:9]).asking] == ["r1"]
    assert folded(LIVE[:10]).asking == []


def test_text_of_a_step_that_is_tried_again_is_not_shown_twice():
    assert [e.text for e in folded(LIVE).entries if isinstance(e, Answer)] == ["I will look", "Two files."]
