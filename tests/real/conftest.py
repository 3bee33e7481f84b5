"""Supervisors of the real engine, and tiny models for it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from agent.config.profile import ModelSource, Profile, Rung, Sampling
from agent.events import ServerState
from agent.runtime.command import Files
from agent.runtime.dialect import Dialect, probe_engine
from agent.runtime.record import Home
from agent.runtime.supervisor import Provision, Supervisor
from tests.planners import Wished
from tests.real.tiny import Tiny, make_tiny

Start = Callable[..., Supervisor]


@pytest.fixture(scope="session")
def dialect(binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Dialect:
    return asyncio.run(probe_engine(binary, tmp_path_factory.mktemp("dialects"), os.environ))[0]


@pytest.fixture
def home(binary: Path, smollm2: Path, tmp_path: Path) -> Path:
    """A DFLASH_HOME with the engine and the smoke model in place, as after a first run."""
    engines, models = tmp_path / "data" / "engines", tmp_path / "cache" / "models"
    engines.mkdir(parents=True)
    models.mkdir(parents=True)
    (engines / "real").symlink_to(binary.parent)
    (models / smollm2.name).symlink_to(smollm2)
    return tmp_path


@pytest.fixture(scope="session")
def talker(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return make_tiny(tmp_path_factory.mktemp("talker"))


@pytest.fixture(scope="session")
def caller(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return make_tiny(tmp_path_factory.mktemp("caller"), tool="bash", argument=("command", "touch made-by-the-model"))


def tiny_profile(**changes: object) -> Profile:
    """With a draft of which only the kind matters. One thread: on a busy machine two wait for each other longer than
    they compute."""
    some = ModelSource(kind="file", path=Path("some.gguf"))
    return Profile(
        name="tiny-dflash",
        title="tiny",
        model=some,
        draft=some,
        ctx=4096,
        threads=1,
        draft_max=7,
        sampling=Sampling(temperature=0),
    ).model_copy(update=changes)


@pytest.fixture
async def start(binary: Path, dialect: Dialect, tmp_path: Path) -> AsyncIterator[Start]:
    """Makes supervisors that are stopped at the end. `states` collects what they publish."""
    made: list[Supervisor] = []

    def make(
        model: Path, draft: Path | None = None, profile: Profile | None = None, states: list[ServerState] | None = None
    ) -> Supervisor:
        runs = profile or tiny_profile()

        async def provide(report: Callable[[str], None]) -> Provision:
            report("found")
            rungs: tuple[Rung, ...] = ("dflash", "plain") if draft else ("plain",)
            return Provision(Files(binary, model, draft), dialect, rungs, Wished(runs))

        publish = states.append if states is not None else lambda state: None
        supervisor = Supervisor(runs, provide, os.environ, Home(tmp_path / "engine"), publish)
        made.append(supervisor)
        return supervisor

    yield make
    for supervisor in made:
        await supervisor.stop()
