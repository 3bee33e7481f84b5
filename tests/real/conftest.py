"""The real engine and its models. A missing engine is a failure with the way to get it, never a skip."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from agent.config.profile import ModelSource, Profile, Sampling
from agent.events import ServerState
from agent.runtime.supervisor import Provision, Supervisor
from tests.real.tiny import Tiny, make_tiny

Start = Callable[..., Supervisor]


def _from_environment(name: str) -> Path:
    value = os.environ.get(name, "")
    if not value or not Path(value).is_file():
        pytest.fail(f"{name} names no file; run the tests with scripts/test.sh, which builds the engine.")
    return Path(value)


@pytest.fixture(scope="session")
def binary() -> Path:
    return _from_environment("DFLASH_TEST_ENGINE")


@pytest.fixture(scope="session")
def smollm2() -> Path:
    return _from_environment("DFLASH_TEST_MODEL")


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
    """One thread: on a busy machine two wait for each other longer than they compute."""
    return Profile(
        name="tiny-dflash",
        title="tiny",
        model=ModelSource(kind="file"),
        ctx=4096,
        threads=1,
        spec_type="draft-dflash",
        spec={"spec-draft-n-max": 7},
        sampling=Sampling(temperature=0),
        flags=("--reasoning", "off"),
    ).model_copy(update=changes)


@pytest.fixture
async def start(binary: Path, tmp_path: Path) -> AsyncIterator[Start]:
    """Makes supervisors that are stopped at the end. `states` collects what they publish."""
    made: list[Supervisor] = []

    def make(
        model: Path, draft: Path | None = None, profile: Profile | None = None, states: list[ServerState] | None = None
    ) -> Supervisor:
        async def provide(report: Callable[[str], None]) -> Provision:
            report("found")
            return Provision(binary, model, draft)

        publish = states.append if states is not None else lambda state: None
        supervisor = Supervisor(profile or tiny_profile(), provide, os.environ, tmp_path / "engine.log", publish)
        made.append(supervisor)
        return supervisor

    yield make
    for supervisor in made:
        await supervisor.stop()
