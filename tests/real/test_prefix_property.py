"""Whatever happens in a session, each request is a byte extension of the one before and of what the model answered to
it, as the real engine renders both with the template that was derived from Google's."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import subprocess
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import httpx2
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from agent.core.session import Session
from agent.events import Endpoint
from agent.model.calls import LenientCalls
from agent.model.wire import request_body
from agent.protocols import CallChunk, FinishChunk, ModelChunk, ModelRequest, SentChunk, TextChunk, ThinkingChunk
from agent.runtime.template import append_only
from tests.fakes.core import FakeTool, MemoryJournal, RealClock, finish, rough
from tests.real.tiny import make_tiny

pytestmark = pytest.mark.real
HERE = Endpoint("http://127.0.0.1:1", "key", "m", engine="b", rewrites=())
SYSTEM = "You are an agent.\n\n# Instructions\n\nBe brief."
# Where a user's message ends and the reply begins.
REPLY_BEGINS = {"gemma": "<turn|>\n<|turn>model\n", "chatml": "<|im_end|>\n<|im_start|>assistant\n"}

words = st.text(st.sampled_from('abc äß語 \n\t"{}[]:,<>|\\_*`'), max_size=30)
said = words.map(str.strip).filter(bool)  # the composer sends nothing without a word
answers = words.filter(lambda t: bool(t.strip()))  # one of blank space alone counts as none
values = st.recursive(
    st.none() | st.booleans() | st.integers(-9999, 9999) | st.sampled_from([0.5, -2.25]) | words,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["z", "y", "a", "b_c"]), inner, max_size=3)
    ),
    max_leaves=5,
)
arguments = st.dictionaries(st.sampled_from(["value", "path", "a", "zeta"]), values, max_size=4)


@dataclass
class Reply:
    """What the model writes next. `stop`: after how many chunks the user cancels; None: he does not."""

    text: str
    calls: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    thought: str = ""
    stop: int | None = None


@dataclass
class Do:
    """One thing that happens between turns, or a whole turn."""

    what: str
    text: str = ""
    replies: list[Reply] = field(default_factory=list[Reply])
    steered: str = ""
    thinking: bool = False


loops = st.lists(st.builds(Reply, answers | st.just(""), st.lists(arguments, min_size=1, max_size=3)), max_size=3)
ends = st.builds(Reply, answers, stop=st.none() | st.integers(0, 3))
turns = st.builds(
    lambda text, loop, end, *more: Do("turn", text, [*loop, end], *more),
    *(said, loops, ends, said | st.just(""), st.booleans()),
)
between = st.sampled_from(["mode", "skill", "late tool", "new instructions", "resume"]).map(Do)
stories = st.lists(turns | between, min_size=2, max_size=8)


def gemma(value: Any) -> str:
    """As the model writes a value."""
    match value:
        case str():
            return f'<|"|>{value}<|"|>'
        case dict():
            fields: dict[str, Any] = value
            return "{" + ",".join(f"{k}:{gemma(v)}" for k, v in fields.items()) + "}"
        case list():
            items: list[Any] = value
            return "[" + ",".join(map(gemma, items)) + "]"
        case _:
            return json.dumps(value)


class Model:
    """Writes what it is told, and keeps what it was sent and the raw text of what it answered."""

    def __init__(self, render: Render) -> None:
        self.script: list[Reply] = []
        self.log: list[tuple[str, str, bool]] = []  # prompt, what was written of the reply, and whether it is kept
        self.on_stop: Callable[[], None] = lambda: None
        self._render = render

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        tools = json.loads(request.tools)
        body = request_body(request, HERE, tools, {})
        prompt = self._render(body)
        yield SentChunk(body)
        reply = self.script.pop(0) if self.script else Reply("So it is.")
        thought = f"I think of {len(self.log)}.\n" if request.thinking else ""
        opened = "" if prompt.endswith("<|channel>thought\n") else "<|channel>thought\n"
        chunks: list[tuple[ModelChunk, str]] = (
            [(ThinkingChunk(thought), f"{opened}{thought}<channel|>")] if thought else []
        )
        chunks += [(TextChunk(piece), piece) for piece in re.findall(r"\S+\s*|\s+", reply.text)]
        stop = reply.stop if reply.stop is not None and reply.stop < len(chunks) else None
        raw, kept = "", False
        for number, (chunk, piece) in enumerate(chunks):
            if number == stop:
                self.log.append((prompt, raw, kept))
                self.on_stop()
                await asyncio.sleep(30)
            raw, kept = raw + piece, kept or (isinstance(chunk, TextChunk) and bool(piece.strip()))
            yield chunk
            await asyncio.sleep(0)
        for number, call in enumerate(reply.calls):
            raw += f"<|tool_call>call:bash{gemma(call)}<tool_call|>"
            yield CallChunk(number, f"c{len(self.log)}-{number}", "bash", json.dumps(call, ensure_ascii=False))
        self.log.append((prompt, raw, True))
        end: FinishChunk = finish("tool_calls" if reply.calls else "stop")
        yield end


class World:
    """A session, over its resumes."""

    def __init__(self, render: Render) -> None:
        self.model = Model(render)
        self.journal = MemoryJournal()
        self.tools = ["bash", "read"]
        self.system = SYSTEM
        self.steered = ""
        self.session = self._open()

    def _open(self) -> Session:
        bash = FakeTool("bash", act=self._act)
        parameters = {"type": "object", "properties": {"value": {"type": "string"}}, "required": []}
        functions = [{"name": n, "description": f"The tool {n}.", "parameters": parameters} for n in self.tools]
        return Session(
            model=self.model,
            tools=(bash,),
            tools_json=json.dumps([{"type": "function", "function": f} for f in functions]),
            system=self.system,
            journal=self.journal,
            clock=RealClock(),
            reader=LenientCalls(),
            counter=rough(),
            past=tuple(self.journal.events),
            prefix=self.journal.prefix,
            mode="auto",
        )

    def _act(self, value: str, _ctx: object) -> str:
        if self.steered:
            steered, self.steered = self.steered, ""
            self.session.steer(steered)
        return f"ran {value!r}, {{and}} said so\n"

    async def do(self, it: Do) -> None:
        match it.what:
            case "turn":
                await self._turn(it)
            case "mode":
                self.session.set_mode("plan" if self.session.mode == "auto" else "auto")
                self.session.set_mode("auto")
            case "skill":
                await self._turn(Do("turn", "Skill: write tests.\n\n# How\n\nWell.", [Reply("Read it.")]))
            case "late tool":
                self.tools.append(f"late{len(self.tools)}")
            case "new instructions":
                self.system += "\nAnd be kind."
            case _:
                await self.session.close()
                self.session = self._open()

    async def _turn(self, it: Do) -> None:
        self.model.script, self.steered = list(it.replies), it.steered
        self.session.set_thinking(it.thinking)
        cancelling: list[asyncio.Task[Any]] = []
        loop = asyncio.get_running_loop()
        self.model.on_stop = lambda: cancelling.append(loop.create_task(self.session.cancel()))
        self.session.submit(it.text)
        await self.session.idle()
        await asyncio.gather(*cancelling)


Render: TypeAlias = Callable[[dict[str, Any]], str]


@pytest.fixture(scope="module")
def server(
    binary: Path, official: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Render]]:
    """Renders requests by a real llama-server with the template of that name, mended where it needs to be."""
    running: dict[str, tuple[subprocess.Popen[bytes], httpx2.Client]] = {}

    def start(name: str) -> Render:
        if name not in running:
            folder = tmp_path_factory.mktemp("render")
            own = official(name)
            (folder / "template.jinja").write_text(derived.text if (derived := append_only(own)) else own)
            running[name] = _serve(binary, make_tiny(folder).target, folder)
        client = running[name][1]

        def render(body: dict[str, Any]) -> str:
            answer = client.post("/apply-template", json=body)
            assert answer.status_code == 200, answer.text
            return answer.json()["prompt"]

        return render

    yield start
    for process, client in running.values():
        client.close()
        process.terminate()
        process.wait()


def _serve(binary: Path, model: Path, folder: Path) -> tuple[subprocess.Popen[bytes], httpx2.Client]:
    argv = [binary, "-m", model, "--chat-template-file", folder / "template.jinja", "--jinja", "-c", "512", "-t", "1"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([*map(str, argv), "--port", "0", "--reasoning", "off"], stdout=log, stderr=log)
    url = None
    while url is None:
        assert process.poll() is None, (folder / "log").read_text()
        url = re.search(r"listening on (http://\S+)", (folder / "log").read_text(errors="replace"))
    return process, httpx2.Client(base_url=url[1], trust_env=False, timeout=30)


def play(render: Render, story: list[Do]) -> Model:
    async def run() -> Model:
        world = World(render)
        for it in story:
            await world.do(it)
        await world.session.close()
        return world.model

    return asyncio.run(run())


def assert_extends(model: Model, begins: str, *, exact: bool) -> None:
    """`exact`: the raw text of a reply is known, and must follow as well."""
    for (prompt, raw, kept), (later, _, _) in itertools.pairwise(model.log):
        must = prompt + (raw if kept and exact else "")
        if not kept and "tool_response" not in prompt[-20:] and begins in prompt:
            must = prompt[: prompt.rindex(begins)]  # the user's next message joins the one that nothing answered
        assert later.startswith(must), f"…{must[-300:]!r}\nis followed by\n…{later[max(0, len(must) - 300) :][:700]!r}"


# without shrinking: stories are short, and the message shows where two prompts part
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(story=stories)
def test_each_request_extends_the_last_one_and_its_reply(server: Callable[[str], Render], story: list[Do]) -> None:
    model = play(server("google-gemma-4-31B-it"), story)
    assert_extends(model, REPLY_BEGINS["gemma"], exact=True)


@pytest.mark.parametrize("name", ["Qwen3.5-4B", "Qwen-Qwen3-0.6B", "Qwen3-Coder", "Qwen-Qwen2.5-7B-Instruct"])
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(story=stories)
def test_each_request_extends_the_last_one_in_other_families(
    server: Callable[[str], Render], name: str, story: list[Do]
) -> None:
    assert_extends(play(server(name), story), REPLY_BEGINS["chatml"], exact=False)
