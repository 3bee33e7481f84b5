"""`dflash-agent setup`: engine and models of a profile, without the screen; `--dry-run` says what it would do."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Protocol

from agent.config.paths import Paths
from agent.config.profile import Profile
from agent.console.doctor import Locate, examine, sources_of, text_of
from agent.errors import RuntimeFailure
from agent.events import ServerState
from agent.progress import Lines, size
from agent.protocols import Server, Setup
from agent.runtime.hardware import Gpu, Machine, read_machine
from agent.runtime.known import KNOWN
from agent.runtime.planner import GIB, Wish, make_plan, table
from agent.runtime.process import run_lines
from agent.runtime.provision import engine_here, setup_script
from agent.survey import Choice, Offer, Survey

OK, CANNOT_START = 0, 3
# A card of 24 GB with a desktop on it, for plans on a machine without one.
ASSUMED = Gpu("a GPU of 24 GB (assumed: none was found)", "", 24 * GIB, int(23.5 * GIB), "8.9")


class Chosen(Setup, Server, Protocol):
    @property
    def choice(self) -> Choice: ...


async def setup(chosen: Chosen, ask: Callable[[], bool]) -> int:
    """Says what is here and what the chosen profile takes, gets that, starts the engine, looks at its first answers,
    says how fast it was, and lets go of it. `ask`: whether to go on, where something has to be built or fetched. Raises
    AgentError."""
    survey = await chosen.survey()
    offer = survey.offer(chosen.choice.profile)
    assert offer is not None
    for line in plan_of(survey, offer):
        print(line)
    sys.stdout.flush()
    if offer.obstacle:
        raise RuntimeFailure(f"{offer.obstacle} Use another profile, or a server elsewhere (--server URL).")
    if not offer.ready and not ask():
        return OK
    lines = Lines()

    def tell(state: ServerState) -> None:
        if state.phase and (line := lines.line(state.phase)):
            print(line, file=sys.stderr, flush=True)

    try:
        ready = await chosen.get_ready(chosen.choice, tell)
    finally:
        await chosen.stop()
    print(ready)
    if ready.note:
        print(ready.note)
    print("Start: dflash-agent")
    return OK


def plan_of(survey: Survey, offer: Offer) -> Iterator[str]:
    yield from (f"{name:9} {words}" for name, words in survey.found)
    facts = (offer.title, offer.quantisation, offer.drafting, f"context {offer.ctx:,} tokens" if offer.ctx else "")
    yield ""
    yield f"Profile {offer.profile}: {', '.join(f for f in facts if f)}"
    yield from [f"  {survey.why}"] if offer.profile == survey.proposed else []
    for need in offer.needs:
        cost = "here" if need.here else need.effort or (size(need.bytes) if need.bytes else "size unknown")
        yield f"  {need.kind:7} {need.name}: {cost}"
    yield ""


async def dry_run(profile: Profile, paths: Paths, env: Mapping[str, str], locate: Locate) -> int:
    """The whole plan; CANNOT_START with the reasons when this machine cannot run the profile."""
    machine = read_machine(env)
    print(f"Profile {profile.name}: {profile.title}\n")
    engine = engine_here(paths.engines, profile.gpu)
    print("Engine")
    if engine is not None:
        print(f"  is there: {engine.binary}")
    else:
        await _script(profile, machine, paths, env)
    print("\nFiles")
    for name, source in sources_of(profile):
        path = locate(source)
        if path is not None:
            print(f"  {name}: is there: {path}")
            continue
        what = f"{source.file} of {source.repo}" if source.kind == "hub" else str(source.path or "the smoke model")
        about = f", about {size(source.bytes)}" if source.bytes else ""
        print(f"  {name}: would fetch {what}{about}" if source.kind != "file" else f"  {name}: {what} is not there")
    _memory(profile, machine)
    report = await examine(profile, paths, env, locate)
    print("\nThis machine")
    for line in text_of(replace(report, plan=())):
        print(f"  {line}".rstrip())
    able = bool(machine.gpus) or not profile.gpu or engine is not None
    if not able:
        why = f"{profile.name} needs a GPU, and none was found: {machine.no_gpu}."
        print(f"dflash-agent: {why} Use --profile smoke, or a server elsewhere (--server URL).", file=sys.stderr)
    return OK if able else CANNOT_START


async def _script(profile: Profile, machine: Machine, paths: Paths, env: Mapping[str, str]) -> None:
    """What the setup script says it would do."""
    argv = ["bash", str(setup_script()), "--dry-run", "--prefix", str(paths.engines)]
    if not profile.gpu:
        argv += ["--from", "sdist", "--backend", "cpu"]
    elif machine.gpus:
        argv += ["--from", "auto", "--backend", "auto"]
    else:
        print("  (for the assumed GPU)")
        argv += ["--from", "auto", "--backend", "cuda", "--arch", ASSUMED.compute_capability.replace(".", "")]
    print(f"  would run: {' '.join(argv)}")
    await run_lines(argv, env=env, on_line=lambda line: print(f"  {line.removeprefix('setup: ')}"))


def _memory(profile: Profile, machine: Machine) -> None:
    target = KNOWN.get(profile.model.file)
    if target is None or not profile.gpu:
        return
    draft = KNOWN.get(profile.draft.file) if profile.draft else None
    supposed = machine if machine.gpus else replace(machine, gpus=(ASSUMED,))
    wish = Wish(profile.ctx, profile.min_ctx, profile.kv, gpu=True, threads=profile.threads)
    print(f"\nMemory on {supposed.gpus[0].name}, from the known figures of these files")
    for line in table(make_plan(target, draft, supposed, wish)).splitlines():
        print(f"  {line}")
