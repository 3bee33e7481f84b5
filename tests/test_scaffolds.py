"""From an empty folder to a project whose own tests pass, with the skills that ship: the product runs for real, and so
do pip and npm; the model plays a script, chatty and sometimes wrong. Needs the package indexes of Python and Node."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.events import DurableEvent, ResultAdded, TurnEnded
from agent.store.archive import FileArchive
from agent.tui.app import DflashApp
from agent.tui.composer import Composer
from agent.wiring.options import Options
from agent.wiring.parts import Parts
from tests.fakes.llama import FakeLlama, Reply, calls, say

SKILLS = Path(__file__).parents[1] / "skills"
JOURNEYS = sorted((Path(__file__).parent / "journeys" / "scaffold").glob("*.yaml"))
INDEX_SETTINGS = ("PIP_", "NPM_CONFIG_", "npm_config_", "SSL_", "NODE_EXTRA_CA_CERTS", "HTTP_PROXY", "HTTPS_PROXY")

pytestmark = [pytest.mark.indexes, pytest.mark.timeout(600)]


@pytest.fixture(params=JOURNEYS, ids=lambda p: p.stem)
def journey(request: pytest.FixtureRequest) -> dict[str, Any]:
    text = request.param.read_text(encoding="utf-8").replace("{skills}", str(SKILLS))
    return yaml.safe_load(text)


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What both ways of a journey download is fetched once."""
    cache = tmp_path_factory.mktemp("packages")
    settings = {k: v for k, v in os.environ.items() if k.startswith(INDEX_SETTINGS)}
    return settings | {"PIP_CACHE_DIR": str(cache / "pip"), "NPM_CONFIG_CACHE": str(cache / "npm")}


def start(journey: dict[str, Any], base: Path) -> tuple[Path, Path]:
    project, home = base / "project", base / "home"
    project.mkdir()
    home.mkdir()
    for name, text in journey.get("files", {}).items():
        (project / name).write_text(text, encoding="utf-8")
    return project, home


def environment(home: Path, packages: dict[str, str]) -> dict[str, str]:
    own = {"PATH": os.environ["PATH"], "HOME": str(home), "DFLASH_HOME": str(home / "dflash"), "LANG": "C.UTF-8"}
    return packages | own


def replies(journey: dict[str, Any]) -> list[Reply]:
    return [
        calls(*((n, a) for n, a in reply["calls"]), text=reply.get("say", ""))
        if "calls" in reply
        else say(reply["say"])
        for reply in journey["replies"]
    ]


def check(journey: dict[str, Any], events: list[DurableEvent], project: Path, env: dict[str, str]) -> None:
    results = [e for e in events if isinstance(e, ResultAdded)]
    for wanted, result in zip(journey["results"], results, strict=True):
        assert (result.tool, result.failed) == (wanted["tool"], wanted["failed"]), result.text
        assert wanted.get("has", "") in result.text
    assert isinstance(events[-1], TurnEnded) and events[-1].outcome == "done"
    proof = subprocess.run(
        ["bash", "-c", journey["proof"]], cwd=project, env=env, capture_output=True, text=True, timeout=120
    )
    assert proof.returncode == 0, proof.stdout + proof.stderr


def test_headless(journey: dict[str, Any], tmp_path: Path, packages: dict[str, str]) -> None:
    project, home = start(journey, tmp_path)
    env = environment(home, packages)
    with FakeLlama(replies(journey), n_ctx=32_768) as server:
        done = subprocess.run(
            [
                *(sys.executable, "-P", "-m", "agent", "--server", server.url, "--permission-mode", "auto"),
                *("--output-format", "json", "-p", journey["prompt"]),
            ],
            env=env,
            cwd=project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=500,
        )
    assert done.returncode == 0, done.stderr + done.stdout
    result = json.loads(done.stdout)
    assert result["text"].strip() == journey["replies"][-1]["say"].strip()
    check(journey, list(FileArchive(home / "dflash" / "state" / "sessions").load(result["session"])), project, env)


async def test_on_the_screen(journey: dict[str, Any], tmp_path: Path, packages: dict[str, str]) -> None:
    project, home = start(journey, tmp_path)
    env = environment(home, packages)
    with FakeLlama(replies(journey), n_ctx=32_768) as server:
        parts = Parts(Options(project, server=server.url, mode="auto"), env, can_ask=True)
        app = DflashApp(parts.open_session, profile_label="attached", folder=project, commands=parts.registry)
        async with app.run_test(size=(100, 40)) as pilot:
            app.screen.query_one(Composer).insert(journey["prompt"])
            await pilot.pause()
            await pilot.press("enter")
            await pilot.pause()
            assert parts.session is not None
            await parts.session.idle()
            events = list(parts.session.past)
        await parts.close()
    check(journey, events, project, env)
