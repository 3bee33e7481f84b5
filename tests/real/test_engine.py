"""The supervisor with the real llama-server: nothing here is a stand-in."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gguf
import pytest

from agent.config.paths import Paths
from agent.config.profile import ModelSource, load_profile
from agent.errors import RuntimeFailure
from agent.events import ServerState
from agent.progress import Report
from agent.runtime.command import Files
from agent.runtime.dialect import Dialect
from agent.runtime.gguf import read_gguf
from agent.runtime.provision import provide
from agent.runtime.record import Home
from agent.runtime.supervisor import Provision, Supervisor
from tests.planners import Wished
from tests.real.conftest import Start, tiny_profile
from tests.real.tiny import Tiny, make_tiny

pytestmark = pytest.mark.real


async def killed(supervisor: Supervisor) -> None:
    pid = supervisor.pid
    assert pid
    os.kill(pid, signal.SIGKILL)
    while Path(f"/proc/{pid}").exists():  # until the event loop has reaped it
        await asyncio.sleep(0)


async def test_it_starts_says_what_it_is_and_stops_without_a_trace(start: Start, talker: Tiny) -> None:
    states: list[ServerState] = []
    supervisor = start(talker.target, talker.draft, states=states)
    first, second = await asyncio.gather(supervisor.ensure_ready(), supervisor.ensure_ready())
    assert first == second == await supervisor.ensure_ready()
    assert (first.n_ctx, first.speculative, first.model) == (4096, True, "tiny")
    assert first.api_key not in repr(first)
    pid = supervisor.pid
    assert pid and first.api_key.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
    await supervisor.stop()
    assert not Path(f"/proc/{pid}").exists()
    kinds = [s.kind for s in states]
    assert kinds[0] == "starting" and kinds[-3:] == ["ready", "stopping", "stopped"]


async def test_a_killed_engine_heals_on_the_next_request(start: Start, talker: Tiny) -> None:
    supervisor = start(talker.target, talker.draft)
    before = await supervisor.ensure_ready()
    await killed(supervisor)
    after = await supervisor.ensure_ready()
    assert after.base_url.startswith("http://127.0.0.1:") and after.api_key != before.api_key


async def test_a_crash_is_told_before_anybody_asks(start: Start, talker: Tiny) -> None:
    states: list[ServerState] = []
    supervisor = start(talker.target, states=states)
    await supervisor.ensure_ready()
    await killed(supervisor)
    async with asyncio.timeout(10):
        while supervisor.state.kind == "ready":
            await asyncio.sleep(0)
    assert states[-1].kind == "failed" and "signal 9" in states[-1].why and states[-1].last_words


async def test_stops_and_failed_starts_are_no_crashes(start: Start, talker: Tiny, tmp_path: Path) -> None:
    supervisor = start(talker.target)
    absent = start(tmp_path / "absent.gguf")
    for _ in range(6):
        await supervisor.ensure_ready()
        await supervisor.stop()
        with pytest.raises(RuntimeFailure, match="cannot be read"):
            await absent.ensure_ready()


async def test_a_request_during_a_stop_starts_afresh(start: Start, talker: Tiny) -> None:
    supervisor = start(talker.target)
    before = await supervisor.ensure_ready()
    _, after = await asyncio.gather(supervisor.stop(), supervisor.ensure_ready())
    assert after.api_key != before.api_key or supervisor.state.kind == "stopped"
    assert (await supervisor.ensure_ready()) == (await supervisor.ensure_ready())
    assert supervisor.state.kind == "ready"


async def test_an_engine_that_dies_again_and_again_is_given_up(start: Start, talker: Tiny) -> None:
    supervisor = start(talker.target)
    with pytest.raises(RuntimeFailure, match="times in a few minutes"):
        for _ in range(9):
            await supervisor.ensure_ready()
            await killed(supervisor)
    assert supervisor.state.kind == "failed"


async def test_a_stop_during_the_start_tears_it_down(start: Start, smollm2: Path) -> None:
    supervisor = start(smollm2)
    starting = asyncio.create_task(supervisor.ensure_ready())
    while supervisor.pid is None:
        await asyncio.sleep(0)
    pid = supervisor.pid
    await supervisor.stop()
    with pytest.raises(RuntimeFailure, match="stopped"):
        await starting
    assert not Path(f"/proc/{pid}").exists() and supervisor.state.kind == "stopped"


async def test_each_bad_model_gets_its_own_sentence(start: Start, talker: Tiny, tmp_path: Path) -> None:
    (tmp_path / "page.gguf").write_text("<html>not found</html>")
    (tmp_path / "half.gguf").write_bytes(talker.target.read_bytes()[:-200_000])
    for name, says in (
        ("absent.gguf", "cannot be read"),
        ("page.gguf", "not a GGUF file"),
        ("half.gguf", "is cut off"),
    ):
        supervisor = start(tmp_path / name)
        with pytest.raises(RuntimeFailure, match=says) as caught:
            await supervisor.ensure_ready()
        assert str(tmp_path / name) in str(caught.value)
        assert supervisor.state.kind == "failed" and supervisor.pid is None


async def test_an_unknown_flag_is_named(start: Start, talker: Tiny) -> None:
    supervisor = start(talker.target, profile=tiny_profile(flags={"any": ("--no-such-flag",)}))
    with pytest.raises(RuntimeFailure, match="does not know the flag --no-such-flag"):
        await supervisor.ensure_ready()


async def test_a_binary_that_is_missing_is_one_sentence(talker: Tiny, dialect: Dialect, tmp_path: Path) -> None:
    async def provide(report: object) -> Provision:
        return Provision(Files(tmp_path / "no-server", talker.target), dialect, ("plain",), Wished(tiny_profile()))

    supervisor = Supervisor(tiny_profile(), provide, os.environ, Home(tmp_path / "engine"), lambda state: None)
    with pytest.raises(RuntimeFailure, match="Cannot start"):
        await supervisor.ensure_ready()


# ---- from a profile, as the product does it
@pytest.fixture
def from_profile(home: Path) -> Callable[..., Supervisor]:
    """Makes supervisors of a profile file, with the engine where the product looks for it."""

    def make(text: str, states: list[ServerState]) -> Supervisor:
        paths = Paths.from_env({"DFLASH_HOME": str(home)})
        folder = paths.config / "profiles"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "own.toml").write_text(text)

        async def nothing(sources: Sequence[ModelSource], report: Report) -> list[Path]:
            raise AssertionError("there is nothing to fetch")

        profile = load_profile("own", (folder,))

        async def find(report: Report) -> Provision:
            return await provide(profile, paths, os.environ, report, True, nothing)

        return Supervisor(profile, find, os.environ, Home.of(paths.state, profile), states.append)

    return make


async def test_a_profile_of_ones_own_drafts_with_dflash(from_profile: Any, talker: Tiny) -> None:
    states: list[ServerState] = []
    text = f'draft = "{talker.draft}"\nctx = 4096\n[model]\nkind = "file"\npath = "{talker.target}"\n'
    supervisor = from_profile(text, states)
    try:
        endpoint = await supervisor.ensure_ready()
        assert (endpoint.rung, endpoint.speculative, endpoint.n_ctx, states[-1].note) == ("dflash", True, 4096, "")
    finally:
        await supervisor.stop()


def edited(file: Path, copy: Path, key: str, value: int) -> Path:
    """A copy whose first number under `key` is another."""
    shutil.copy(file, copy)
    field = gguf.GGUFReader(copy, "r+").fields[key]
    field.parts[field.data[0]][0] = value
    return copy


async def test_each_draft_that_cannot_serve_gets_its_own_sentence_and_costs_only_speed(
    from_profile: Any, talker: Tiny, caller: Tiny, tmp_path: Path
) -> None:
    short = tmp_path / "short.gguf"
    short.write_bytes(talker.draft.read_bytes()[:-100_000])
    named = tmp_path / "named.gguf"
    named.write_bytes(talker.draft.read_bytes().replace(b"dflash", b"dflush"))
    drafts = {
        edited(talker.draft, tmp_path / "layers.gguf", "dflash.target_layers", 99): "listens at layer 99",
        caller.draft: "tokens and the model",
        named: "not a DFlash drafter but a model of architecture 'dflush'",
        short: "cut off",
        talker.target: "not a DFlash drafter but a model of architecture 'gemma4'",
    }
    for draft, words in drafts.items():
        states: list[ServerState] = []
        text = f'draft = "{draft}"\nctx = 2048\n[model]\nkind = "file"\npath = "{talker.target}"\n'
        supervisor = from_profile(text, states)
        try:
            endpoint = await supervisor.ensure_ready()
        finally:
            await supervisor.stop()
        note = next(s.note for s in states if s.kind == "ready")
        assert endpoint.rung == "plain" and endpoint.speculative is False
        assert note.startswith("Running with no drafts instead of DFlash: ") and words in note, note


async def test_a_context_beyond_the_models_own_is_cut_and_told(from_profile: Any, talker: Tiny) -> None:
    states: list[ServerState] = []
    text = f'ctx = 10_000_000\n[model]\nkind = "file"\npath = "{talker.target}"\n'
    supervisor = from_profile(text, states)
    try:
        endpoint = await supervisor.ensure_ready()
    finally:
        await supervisor.stop()
    note = next(s.note for s in states if s.kind == "ready")
    assert endpoint.n_ctx and f"The context is {endpoint.n_ctx} tokens instead of 10000000" in note


async def test_a_drafter_in_the_older_format_is_converted_once_and_drafts_as_the_newer_one(
    from_profile: Any, talker: Tiny, tmp_path: Path
) -> None:
    old = make_tiny(tmp_path / "old", legacy=True)
    new = old.draft.with_name("tiny-gemma4-dflash-converted.gguf")
    stamps, shares = [0], list[float | None]()
    for tiny in (old, old, talker):
        states: list[ServerState] = []
        model = f'[model]\nkind = "file"\npath = "{tiny.target}"\n'
        supervisor = from_profile(f'draft = "{tiny.draft}"\nctx = 2048\n{model}', states)
        try:
            endpoint = await supervisor.ensure_ready()
            assert endpoint.rung == "dflash", states[-1].note
            shares.append(supervisor.record.acceptance)
        finally:
            await supervisor.stop()
        stamps.append(new.stat().st_mtime_ns)
    assert stamps[1] == stamps[2] and read_gguf(old.draft).architecture == "dflash-draft"
    assert shares[0] and shares[0] == shares[1] == shares[2]  # of a fixed request at temperature 0
    ours, native = (gguf.GGUFReader(p) for p in (new, talker.draft))
    assert {n: f.contents() for n, f in ours.fields.items() if not n.startswith("GGUF.")}.items() >= {
        n: f.contents() for n, f in native.fields.items() if n != "general.name" and not n.startswith("GGUF.")
    }.items()
    assert {t.name: t.data.tobytes() for t in ours.tensors} == {t.name: t.data.tobytes() for t in native.tensors}
