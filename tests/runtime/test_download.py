"""Downloads from a hub that cuts, refuses, lies and hangs."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from huggingface_hub import hf_hub_download

from agent.config.profile import ModelSource
from agent.errors import RuntimeFailure
from agent.progress import Phase
from agent.runtime.download import fetch
from agent.runtime.hub import Hub, cached
from tests.fakes.hub import COMMIT, FakeHub

CONTENT = b"GGUF" + random.Random(1).randbytes(3_000_000)
SOURCE = ModelSource(kind="hub", repo="some/model", file="m.gguf")
DRAFT = ModelSource(kind="hub", repo="some/draft", file="d.gguf")


@pytest.fixture
def server() -> Iterator[FakeHub]:
    with FakeHub({"some/model/m.gguf": CONTENT, "some/draft/d.gguf": b"GGUF draft"}) as server:
        yield server


@pytest.fixture
def hub(server: FakeHub, tmp_path: Path) -> Hub:
    return Hub(server.url, tmp_path / "hub")


def ignore(phase: Phase) -> None:
    pass


async def get(hub: Hub, *sources: ModelSource) -> list[Path]:
    return await fetch(hub, sources or (SOURCE,), ignore)


def parts(hub: Hub) -> list[Path]:
    return [p for p in hub.cache.rglob("*.part") if p.stat().st_size]


async def refused(hub: Hub, *sources: ModelSource) -> str:
    with pytest.raises(RuntimeFailure) as caught:
        await get(hub, *sources)
    return str(caught.value)


async def test_a_file_lands_where_the_hub_library_finds_it(server: FakeHub, hub: Hub) -> None:
    (path,) = await get(hub)
    assert path.read_bytes() == CONTENT and path.name == "m.gguf" and COMMIT in str(path)
    found = hf_hub_download("some/model", "m.gguf", cache_dir=hub.cache, local_files_only=True)
    assert Path(found) == path == cached(hub, SOURCE)
    assert not parts(hub)


async def test_what_is_there_costs_no_request(server: FakeHub, hub: Hub) -> None:
    await get(hub, SOURCE, DRAFT)
    count = len(server.asked)
    assert [p.name for p in await get(replace(hub, offline=True), DRAFT, SOURCE)] == ["d.gguf", "m.gguf"]
    assert len(server.asked) == count


async def test_cuts_are_gone_on_from_where_they_were(server: FakeHub, hub: Hub) -> None:
    server.faults = [{"cut": 1_000_000}, {"status": 503}, {"cut": 900_000}, {"cut": 800_000}]
    (path,) = await get(hub)
    assert path.read_bytes() == CONTENT and server.sent == len(CONTENT)
    assert server.ranges == ["", "bytes=1000000-", "bytes=1000000-", "bytes=1900000-", "bytes=2700000-"]


async def test_a_server_without_ranges_begins_anew(server: FakeHub, hub: Hub) -> None:
    server.faults = [{"cut": 1_000_000}, {"no_range": True}]
    assert (await get(hub))[0].read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ({"page": True}, "a web page came instead"),
        ({"body": b"short"}, "5 bytes are offered instead of"),
        ({"body": b"X" * len(CONTENT)}, "its sha256 differs"),
        ({"status": 404}, "There is no m.gguf of some/model"),
    ],
)
async def test_what_is_not_the_file_is_not_kept(server: FakeHub, hub: Hub, fault: dict[str, object], says: str) -> None:
    server.faults = [fault]
    assert says in await refused(hub)
    assert not parts(hub) and cached(hub, SOURCE) is None
    assert (await get(hub))[0].read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("status", "code", "says"),
    [
        (401, "GatedRepo", "ask for access at"),
        (403, "GatedRepo", "ask for access at"),
        (404, "EntryNotFound", "There is no m.gguf of some/model"),
        (404, "RepoNotFound", "There is no some/model on the hub"),
        (404, "RevisionNotFound", "no revision main"),
        (429, "", "in 30 s"),
        (500, "", "The hub does not give m.gguf"),
    ],
)
async def test_a_refusal_is_one_sentence_with_the_next_step(
    server: FakeHub, hub: Hub, status: int, code: str, says: str
) -> None:
    server.refusal = (status, code)
    sentence = await refused(replace(hub, token="hf_secret"))
    assert says in sentence and "hf_secret" not in sentence and "\n" not in sentence
    assert not server.ranges


async def test_the_token_goes_to_the_hub_and_not_to_where_the_content_lies(server: FakeHub, hub: Hub) -> None:
    await get(replace(hub, token="hf_secret"))
    seen = {path.split("/")[1]: token for (_, path, _), token in zip(server.asked, server.tokens, strict=True)}
    assert seen["some"] == "Bearer hf_secret" and seen["content"] is None


async def test_a_missing_file_is_told_before_the_first_byte_of_another(server: FakeHub, hub: Hub) -> None:
    del server.files["some/draft/d.gguf"]
    assert "d.gguf" in await refused(hub, SOURCE, DRAFT)
    assert server.sent == 0


async def test_nobody_there_and_offline_are_told_apart(hub: Hub) -> None:
    assert "cannot be reached" in await refused(replace(hub, endpoint="http://127.0.0.1:9"))
    assert "offline" in await refused(replace(hub, offline=True))


async def test_a_disk_that_is_too_small_is_told_before_the_first_byte(server: FakeHub, hub: Hub) -> None:
    server.files["some/model/m.gguf"] = Huge(b"GGUF")  # type: ignore[assignment]
    sentence = await refused(hub)
    assert "GB are free at" in sentence and server.sent == 0


class Huge(bytes):
    def __len__(self) -> int:
        return 1 << 60


async def test_cancelling_keeps_what_came(server: FakeHub, hub: Hub) -> None:
    server.faults = [{"hold": True}]
    task = asyncio.create_task(get(hub))
    assert await asyncio.to_thread(server.held.wait, 10)
    async with asyncio.timeout(10):
        while not parts(hub):
            await asyncio.sleep(0)
    task.cancel()
    server.released.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    (part,) = parts(hub)
    assert 0 < part.stat().st_size < len(CONTENT)
    assert (await get(hub))[0].read_bytes() == CONTENT and server.ranges[1].startswith("bytes=")


async def test_two_who_want_the_same_share_one_download(server: FakeHub, hub: Hub) -> None:
    server.faults = [{"hold": True}]
    phases: list[Phase] = []
    one = asyncio.create_task(get(hub))
    assert await asyncio.to_thread(server.held.wait, 10)
    two = asyncio.create_task(fetch(hub, (SOURCE,), phases.append))
    async with asyncio.timeout(10):
        while not any(p.words == "another window is fetching m.gguf" for p in phases):
            await asyncio.sleep(0.01)
    server.released.set()
    assert await one == await two
    assert server.sent == len(CONTENT)


CHILD = """
import asyncio, json, sys
from pathlib import Path
from agent.config.profile import ModelSource
from agent.runtime.download import fetch
from agent.runtime.hub import Hub
source = ModelSource(kind="hub", repo="some/model", file="m.gguf")
print(asyncio.run(fetch(Hub(sys.argv[1], Path(sys.argv[2])), (source,), lambda phase: None))[0])
"""


def test_a_download_that_is_killed_again_and_again_arrives_whole(server: FakeHub, hub: Hub) -> None:
    """300 MB, killed five times in the middle; nothing that was on the disk comes twice."""
    content = b"GGUF" + random.Random(2).randbytes(3_000_000) * 100
    server.files["some/model/m.gguf"] = content
    argv = [sys.executable, "-P", "-c", CHILD, server.url, str(hub.cache)]
    for kill in range(5):
        child = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
        while sum(p.stat().st_size for p in _parts_now(hub)) < (kill + 1) * 45_000_000:
            assert child.poll() is None
        child.send_signal(signal.SIGKILL)
        child.wait()
    done = subprocess.run(argv, capture_output=True, text=True, timeout=100, check=True)
    assert Path(done.stdout.strip()).read_bytes() == content
    assert len(server.ranges) == 6 and server.ranges[1] != ""
    assert server.sent - len(content) <= 5 * (64 << 20)


def _parts_now(hub: Hub) -> list[Path]:
    with contextlib.suppress(FileNotFoundError):
        return parts(hub)
    return []
