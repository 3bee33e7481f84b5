"""The supervisor and its keeper against an engine that fails in every way that needs no GPU."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agent.config.profile import ModelSource, Ngram, Profile, Rung
from agent.errors import RuntimeFailure
from agent.events import Endpoint, ServerState
from agent.progress import Report
from agent.runtime.command import Files
from agent.runtime.faults import explain
from agent.runtime.lock import holders, start_time
from agent.runtime.plan import Plan
from agent.runtime.record import Home, read_record
from agent.runtime.supervisor import Provision, Supervisor
from tests.runtime.dialects import HELP, dialect

FAKE = Path(__file__).parents[1] / "fakes" / "engine.py"


class HalvingPlanner:
    """Half the context each time; `tried` notes what worked."""

    def __init__(self) -> None:
        self.tried: list[tuple[str, int]] = []

    def first(self, rung: Rung) -> Plan:
        return Plan(8192)

    def smaller(self, rung: Rung, plan: Plan) -> Plan | None:
        return replace(plan, ctx=plan.ctx // 2) if plan.ctx > 2048 else None

    def worked(self, rung: Rung, plan: Plan) -> None:
        self.tried.append((rung, plan.ctx))


class Room:
    """An engine with faults, and windows on it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder, Home(folder / "home")
        self.binary = folder / "llama-server"
        shutil.copy(FAKE, self.binary)
        text = self.binary.read_text().replace("#!/usr/bin/env python3", f"#!{sys.executable}", 1)
        self.binary.write_text(text)
        self.binary.chmod(0o755)
        shutil.copy(HELP["llama.cpp"], folder / "help.txt")
        for name in ("model.gguf", "draft.gguf"):
            (folder / name).write_bytes(b"GGUF")
        self.faults()
        self.planner = HalvingPlanner()
        self.states: list[ServerState] = []
        self.windows: list[Supervisor] = []

    def faults(self, **faults: Any) -> None:
        (self.folder / "faults.json").write_text(json.dumps(faults))

    def window(self, rungs: tuple[Rung, ...] = ("plain",), **options: Any) -> Supervisor:
        model, draft = self.folder / "model.gguf", self.folder / "draft.gguf"
        source = ModelSource(kind="file", path=model)
        profile = Profile(name="p", title="p", model=source, draft=source, ngram=Ngram(), ctx=8192)

        async def provide(report: Report) -> Provision:
            return Provision(Files(self.binary, model, draft), dialect("llama.cpp"), rungs, self.planner)

        window = Supervisor(profile, provide, os.environ, self.home, self.states.append, **options)
        self.windows.append(window)
        return window

    @property
    def starts(self) -> list[list[str]]:
        return _lines(self.folder / "starts.jsonl")

    @property
    def requests(self) -> list[dict[str, Any]]:
        return _lines(self.folder / "requests.jsonl")

    @property
    def phases(self) -> list[str]:
        return [str(s.phase) for s in self.states if s.kind == "starting"]


def _lines(file: Path) -> list[Any]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[Room]:
    room = Room(tmp_path)
    yield room
    for window in room.windows:
        await window.stop()
    record = read_record(room.home.record)
    assert record is None or not record.alive


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0)


async def chat(endpoint: Endpoint, **body: Any) -> httpx2.Response:
    headers = {"Authorization": f"Bearer {endpoint.api_key}"}
    async with httpx2.AsyncClient(base_url=endpoint.base_url, headers=headers, timeout=30) as client:
        return await client.post("/v1/chat/completions", json={"messages": [], **body})


async def failure(window: Supervisor) -> RuntimeFailure:
    with pytest.raises(RuntimeFailure) as caught:
        await window.ensure_ready()
    assert window.state.kind == "failed" and window.state.why == str(caught.value)
    return caught.value


# ---- it starts
async def test_it_is_checked_before_anybody_may_use_it(room: Room) -> None:
    endpoint = await room.window(("dflash",)).ensure_ready()
    assert (endpoint.rung, endpoint.speculative, endpoint.n_ctx) == ("dflash", True, 8192)
    cold, warm = room.requests
    assert cold["temperature"] == 0 and warm["messages"][: len(cold["messages"])] == cold["messages"]
    record = read_record(room.home.record)
    assert record and (record.rung, record.tok_s, record.acceptance) == ("dflash", 100.0, 0.5)
    assert room.planner.tried == [("dflash", 8192)]


async def test_a_load_is_waited_for_and_shown(room: Room) -> None:
    room.faults(loading=3)
    await room.window().ensure_ready()
    assert "loading model.gguf" in room.phases and room.states[-1].kind == "ready"


async def test_a_port_that_is_taken_between_look_and_bind_is_tried_elsewhere(room: Room) -> None:
    room.faults(first={"say": ["start: couldn't bind HTTP server socket, hostname: 127.0.0.1"], "exit": 1})
    await room.window().ensure_ready()
    one, two = room.starts
    assert one[one.index("--port") + 1] != two[two.index("--port") + 1]


async def test_a_server_that_runs_another_model_gets_no_prompt(room: Room) -> None:
    room.faults(unlike="/other.gguf")
    error = await failure(room.window())
    assert "No free port" in str(error) and room.requests == []


# ---- it cannot start
@pytest.mark.parametrize(
    ("faults", "words"),
    [
        ({"say": ["error: invalid argument: --load-mode"], "exit": 1}, "does not know the flag --load-mode"),
        (
            {"say": ["x: error while loading shared libraries: libcudart.so.12: cannot open"], "exit": 127},
            "lacks the library libcudart.so.12",
        ),
        ({"say": ["ggml_cuda_init: failed: CUDA driver version is insufficient"], "exit": 1}, "driver is too old"),
        ({"say": ["CUDA error: no kernel image is available for execution"], "exit": 134}, "another kind of GPU"),
        ({"say": ["gguf_init: invalid magic characters: '<htm'"], "exit": 1}, "not a GGUF file"),
        ({"say": ["tensor 'blk.3' data is not within the file bounds"], "exit": 1}, "cut off or damaged"),
        ({"say": ["done: wrong number of tensors; expected 9, got 8"], "exit": 1}, "cut off or damaged"),
        ({"say": ["unknown model architecture: 'gemma5'"], "exit": 1}, "models of the kind gemma5"),
        ({"say": ["CUDA error: unspecified launch failure"], "exit": 134}, "The GPU failed"),
        ({"say": ["last words"], "exit": 3}, "status 3 while loading"),
        ({"signal": 9}, "signal 9"),
        ({"signal": 11}, "signal 11 while loading"),
        ({"signal": 4}, "instructions that this processor lacks"),
    ],
)
async def test_an_engine_that_ends_while_loading_is_explained(room: Room, faults: dict[str, Any], words: str) -> None:
    room.faults(**faults)
    error = await failure(room.window())
    assert words in str(error)
    assert error.last_words == tuple(faults.get("say", ()))
    assert len(room.starts) <= 3 and room.requests == []


@pytest.mark.parametrize(
    ("said", "names"),
    [
        (
            [
                "gguf_init_from_reader: invalid magic characters: '<htm', expected 'GGUF'",
                "llama_model_load: error loading model: llama_model_loader: failed to load model from /m/a b.gguf",
            ],
            "/m/a b.gguf is not a GGUF file",
        ),
        (
            [
                "tensor 'blk.16' data is not within the file bounds, model is corrupted or incomplete",
                "srv    load_model: failed to load model, '/m/a.gguf'",
            ],
            "/m/a.gguf is cut off or damaged",
        ),
        (
            [
                "gguf_init_from_reader: failed to read header",
                "cmn  common_init_: failed to load model '/m/a.gguf'",
            ],
            "/m/a.gguf cannot be loaded",
        ),
        (["srv    load_model: failed to load draft model, '/m/d.gguf'"], "draft model /m/d.gguf cannot be loaded"),
        (["llama_model_load: failed to load model"], "engine.log) cannot be loaded"),
    ],
)
def test_a_sentence_about_a_file_names_it(said: list[str], names: str) -> None:
    assert names in explain(said, 1, "while loading", Path("/state/engine.log")).sentence


async def test_a_program_that_cannot_run_is_explained(room: Room) -> None:
    room.binary.write_text("no program")
    error = await failure(room.window())
    assert "Cannot start" in str(error) and "Exec format error. Check" in str(error)


async def test_a_flood_of_log_neither_blocks_the_engine_nor_fills_the_disk(room: Room) -> None:
    room.faults(flood=60_000)  # 13 MB
    await room.window().ensure_ready()
    assert sum(f.stat().st_size for f in room.home.folder.glob("engine*.log")) < 11_000_000


# ---- memory
async def test_without_memory_it_goes_down_to_what_fits(room: Room) -> None:
    room.faults(fits=2048)
    endpoint = await room.window().ensure_ready()
    assert endpoint.n_ctx == 2048 and room.planner.tried == [("plain", 2048)]
    assert "not enough memory; trying a context of 4096" in room.phases


async def test_when_nothing_fits_it_says_so(room: Room) -> None:
    room.faults(fits=1024)
    assert "Not enough memory" in str(await failure(room.window()))
    assert len(room.starts) == 3


async def test_memory_that_runs_out_in_use_makes_the_next_start_smaller(room: Room) -> None:
    room.faults(dies_at=2, last="CUDA error: out of memory", first={})
    window = room.window()
    endpoint = await window.ensure_ready()
    with pytest.raises(httpx2.TransportError):
        await chat(endpoint)
    window.suspect("the connection broke off")
    assert (await window.ensure_ready()).n_ctx == 4096


async def test_a_kill_by_whomever_makes_it_smaller_only_when_it_comes_again(room: Room) -> None:
    window = room.window()
    for n_ctx in (8192, 8192, 4096):
        assert (await window.ensure_ready()).n_ctx == n_ctx
        record = read_record(room.home.record)
        assert record
        os.kill(record.pid, signal.SIGKILL)
        await until(lambda: window.state.kind == "failed")
        assert "signal 9" in window.state.why


async def test_a_first_answer_without_memory_is_tried_smaller_not_for_ever(room: Room) -> None:
    room.faults(chat=[500, "CUDA error: out of memory"])
    assert "out of memory" in str(await failure(room.window()))
    assert [int(a[a.index("--ctx-size") + 1]) for a in room.starts] == [8192, 4096, 2048]


# ---- drafting
LADDER: tuple[Rung, ...] = ("dflash", "ngram", "plain")


@pytest.mark.parametrize(
    ("with_draft", "words"),
    [
        ({"say": ["unknown model architecture: 'dflash-draft'"], "exit": 1}, "draft models of the kind dflash-draft"),
        ({"say": ["DFlash model requires 'target_layers' in GGUF metadata"], "exit": 1}, "another engine"),
        ({"say": ["failed to load draft model, 'd.gguf'"], "exit": 1}, "draft model d.gguf cannot be loaded"),
        ({"speculative": False}, "serves without drafting"),
        ({"drafted": [0, 0]}, "does not draft"),
        ({"drafted": [32, 0]}, "does not draft over a cached prefix"),
        ({"accepted": 0.0}, "belongs to another model"),
        ({"text": "/" * 64}, "a row of '/'"),
        ({"text": ""}, "answers with nothing"),
        ({"dies_at": 1}, "broke off at a check of its own"),
        ({"fits": 0}, "Not enough memory"),
    ],
)
async def test_a_draft_that_does_not_work_costs_speed_not_the_engine(
    room: Room, with_draft: dict[str, Any], words: str
) -> None:
    room.faults(with_draft=with_draft)
    endpoint = await room.window(LADDER).ensure_ready()
    assert endpoint.rung == "ngram" and "--spec-draft-model" not in room.starts[-1]
    note = room.states[-1].note
    assert note.startswith("Running with n-gram drafts instead of DFlash:") and words in note
    assert room.planner.tried == [("ngram", 8192)]


async def test_a_model_that_answers_nonsense_even_without_drafts_is_not_used(room: Room) -> None:
    room.faults(text="/" * 64)
    error = await failure(room.window(LADDER))
    assert "a row of '/'" in str(error) and len(room.starts) == 3


# ---- in use
async def test_a_crash_heals_on_the_next_request(room: Room) -> None:
    room.faults(first={"dies_at": 2})
    window = room.window()
    endpoint = await window.ensure_ready()
    with pytest.raises(httpx2.TransportError):
        await chat(endpoint)
    await until(lambda: window.state.kind == "failed")
    assert "GGML_ASSERT(ne == 4) failed" in window.state.last_words[-1]
    again = await window.ensure_ready()
    assert again.api_key != endpoint.api_key and (await chat(again)).status_code == 200


async def test_an_engine_that_always_crashes_is_restarted_twice(room: Room) -> None:
    room.faults(dies_at=2)
    window = room.window()
    for _ in range(3):
        endpoint = await window.ensure_ready()
        with pytest.raises(httpx2.TransportError):
            await chat(endpoint)
        window.suspect("the connection broke off")
    assert "has ended 3 times" in str(await failure(window))
    assert len(room.starts) == 3


async def test_what_crashed_twice_while_drafting_is_run_without(room: Room) -> None:
    room.faults(with_draft={"dies_at": 3})
    window = room.window(LADDER)
    for _ in range(2):
        endpoint = await window.ensure_ready()
        assert endpoint.rung == "dflash"
        with pytest.raises(httpx2.TransportError):
            await chat(endpoint)
        window.suspect("the connection broke off")
    assert (await window.ensure_ready()).rung == "ngram"
    assert "ended twice" in window.state.note


async def test_a_wedged_engine_is_found_by_its_main_loop_and_restarted(room: Room) -> None:
    room.faults(first={"wedged_at": 2})
    window = room.window(patience=0.5)
    endpoint = await window.ensure_ready()
    request = asyncio.create_task(chat(endpoint))
    await until(lambda: len(room.requests) == 2)
    window.suspect("nothing came")
    again = await window.ensure_ready()
    assert again.base_url and again.api_key != endpoint.api_key and len(room.starts) == 2
    with pytest.raises(httpx2.TransportError):
        await request


async def test_a_suspicion_that_proves_wrong_costs_no_restart(room: Room) -> None:
    window = room.window(("dflash", "plain"))
    endpoint = await window.ensure_ready()
    window.suspect("the reply looked odd")
    assert await window.ensure_ready() == endpoint and len(room.starts) == 1
    assert len(room.requests) == 4


async def test_an_engine_that_outgrows_its_plan_is_started_anew_with_smaller_caches(room: Room) -> None:
    room.faults(grows=48)
    window = room.window(slack=64 << 20)
    endpoint = await window.ensure_ready()
    while len(room.requests) < 3:
        await chat(endpoint)
    assert await window.ensure_ready() == endpoint  # 48 MiB are within the slack
    await chat(endpoint)
    assert await window.ensure_ready() != endpoint
    assert "far more memory than planned" in room.states[-1].note
    first, second = room.starts
    assert [a[a.index("--cache-ram") + 1] for a in (first, second)] == ["512", "0"]
    assert [a[a.index("--ctx-checkpoints") + 1] for a in (first, second)] == ["4", "1"]


# ---- several windows
async def test_two_windows_share_one_engine_and_the_last_ends_it(room: Room) -> None:
    one, two = room.window(), room.window()
    first, second = await asyncio.gather(one.ensure_ready(), two.ensure_ready())
    assert first == second and len(room.starts) == 1
    assert holders(room.home.lease) == 2
    await one.stop()
    assert (await chat(second)).status_code == 200
    pid = two.pid
    assert pid
    await two.stop()
    assert start_time(pid) is None and not room.home.record.exists()


async def test_an_engine_to_be_kept_serves_the_next_window(room: Room) -> None:
    one = room.window(keep_alive=5.0)
    first = await one.ensure_ready()
    await one.stop()
    two = room.window()
    assert await two.ensure_ready() == first and len(room.starts) == 1
    record = read_record(room.home.record)
    assert record
    os.kill(record.keeper, signal.SIGTERM)
    await until(lambda: start_time(record.keeper) is None or not record.kept)


async def test_an_engine_stopped_by_another_window_is_no_crash(room: Room) -> None:
    window = room.window()
    await window.ensure_ready()
    record = read_record(room.home.record)
    assert record
    os.kill(record.keeper, signal.SIGTERM)
    await until(lambda: window.state.kind == "stopped")
    await window.ensure_ready()
    assert len(room.starts) == 2 and not window._crashes


async def test_what_a_killed_keeper_left_behind_is_not_trusted(room: Room) -> None:
    window = room.window()
    before = await window.ensure_ready()
    record = read_record(room.home.record)
    assert record
    os.kill(record.keeper, signal.SIGKILL)
    await until(lambda: not record.alive)
    other = room.window()
    after = await other.ensure_ready()
    assert after.api_key != before.api_key and len(room.starts) == 2


async def test_a_stop_during_a_start_leaves_nothing(room: Room) -> None:
    room.faults(stuck=True)
    window = room.window()
    starting = asyncio.create_task(window.ensure_ready())
    await until(lambda: read_record(room.home.record))
    record = read_record(room.home.record)
    await window.stop()
    with pytest.raises(RuntimeFailure, match="stopped while it started"):
        await starting
    assert record and not record.alive and window.state.kind == "stopped"
