"""Downloads from a hub that cuts, refuses, lies and hangs."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import random
import re
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from huggingface_hub import hf_hub_download

from agent.config.profile import ModelSource
from agent.errors import RuntimeFailure
from agent.progress import Phase
from agent.runtime.download import fetch
from agent.runtime.hub import Hub, cached, come
from tests.fakes.hub import COMMIT, FakeHub
from tests.namespaces import unshared

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
        (200, "", "a proxy's page?"),
        (401, "", "does not know your token"),
        (401, "GatedRepo", "ask for access at"),
        (401, "RepoNotFound", "There is no some/model on the hub, or it is private"),
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


async def test_a_server_that_asks_for_a_pause_gets_it_or_its_wish_is_told(server: FakeHub, hub: Hub) -> None:
    server.faults = [{"cut": 1_000_000}, {"status": 429, "after": "1"}]
    assert (await get(hub))[0].read_bytes() == CONTENT
    server.faults = [{"cut": 1}, {"status": 429, "after": "300"}]
    sentence = await refused(hub, DRAFT)
    assert "in 5 min" in sentence and "what has come stays" in sentence
    assert parts(hub)


async def test_a_certificate_that_nobody_vouches_for_is_told_with_the_setting_for_it(tmp_path: Path) -> None:
    with FakeHub({"some/model/m.gguf": CONTENT}, tls=self_signed(tmp_path)) as server:
        sentence = await refused(Hub(server.url, tmp_path / "hub"))
    assert "certificate is not trusted" in sentence and "SSL_CERT_FILE" in sentence


def self_signed(folder: Path) -> ssl.SSLContext:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    day = datetime.timedelta(days=1)
    now = datetime.datetime.now(datetime.UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, now - day, now + day).sign(key, hashes.SHA256())
    plain = serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    (folder / "both.pem").write_bytes(pem + made.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "both.pem")
    return context


async def test_without_a_network_a_file_that_is_half_here_is_named_and_kept(server: FakeHub, hub: Hub) -> None:
    server.faults = [{"cut": 1_000_000}, *[{"status": 404}]]
    await refused(hub)
    (part,) = parts(hub)
    sentence = await refused(replace(hub, endpoint="http://127.0.0.1:9"))
    assert "m.gguf of some/model is not whole on this disk" in sentence and "cannot be reached" in sentence
    assert part.stat().st_size == 1_000_000 and come(hub, SOURCE) == 1_000_000


async def test_how_far_it_is_comes_with_rate_and_time_left(server: FakeHub, hub: Hub) -> None:
    server.faults = [{"pace": 0.05}]  # 46 pieces
    phases: list[Phase] = []
    await fetch(hub, (SOURCE,), phases.append)
    told = [p for p in phases if p.rate > 0]
    assert told and all(p.total == len(CONTENT) and 0 < p.done < p.total and p.left for p in told)
    assert re.fullmatch(r"fetching m.gguf: [12] of 3 MB, [\d,]+ [kM]B/s, \d+ s left", str(told[0]))


FULL = """
import asyncio, sys
from pathlib import Path
from agent.config.profile import ModelSource
from agent.errors import RuntimeFailure
from agent.runtime.download import fetch
from agent.runtime.hub import Hub
source = ModelSource(kind="hub", repo="some/model", file="m.gguf")
disk = Path(sys.argv[2])
def fill(phase):  # somebody else needs the room that was there at the beginning
    if phase.done and not (disk / "other").exists():
        try:
            with (disk / "other").open("wb", buffering=0) as other:
                while other.write(bytes(1 << 20)): pass
        except OSError: pass
try:
    asyncio.run(fetch(Hub(sys.argv[1], disk / "hub"), (source,), fill))
except RuntimeFailure as failure:
    (part,) = disk.rglob("*.part")
    print(failure, part.stat().st_size)
    (disk / "other").unlink(missing_ok=True)
    print(asyncio.run(fetch(Hub(sys.argv[1], disk / "hub"), (source,), lambda phase: None))[0].stat().st_size)
"""


def test_a_disk_that_fills_up_during_a_download_is_told_and_what_came_is_kept(server: FakeHub, tmp_path: Path) -> None:
    size = 300 << 20
    server.files["some/model/m.gguf"] = bytes(size)
    argv = [sys.executable, "-P", "-c", FULL, server.url, str(tmp_path / "disk")]
    (tmp_path / "disk").mkdir()
    argv = unshared("m", argv, f"mount -t tmpfs -o size={size + (300 << 20)} small {tmp_path / 'disk'}")
    done = subprocess.run(argv, capture_output=True, text=True, timeout=100)
    sentence, _, kept = done.stdout.splitlines()[0].rpartition(" ")
    assert sentence.startswith("The disk is full: ") and "m.gguf have come and stay in" in sentence, done.stderr
    assert 0 < int(kept) < size
    assert done.stdout.splitlines()[1] == str(size) and server.ranges[1] == f"bytes={kept}-"


def test_a_limit_to_the_size_of_files_is_told_with_where_it_hit(server: FakeHub, hub: Hub) -> None:
    limit = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (2 << 20,) * 2)\n"
    argv = [sys.executable, "-P", "-c", limit + CHILD, server.url, str(hub.cache)]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert "RuntimeFailure: m.gguf cannot be stored in" in done.stderr and "File too large" in done.stderr
    (part,) = parts(hub)
    assert 0 < part.stat().st_size <= 2 << 20


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


async def test_a_file_that_has_changed_begins_anew_and_leaves_nothing_of_the_old_one(server: FakeHub, hub: Hub) -> None:
    server.faults = [{"cut": 1_000_000}, {"status": 404}]
    await refused(hub)
    (old,) = parts(hub)
    server.files["some/model/m.gguf"] = CONTENT[::-1]
    assert (await get(hub))[0].read_bytes() == CONTENT[::-1]
    assert server.ranges[-1] == "" and not old.exists()
    assert [p.name for p in (hub.cache / "models--some--model" / "blobs").iterdir()] == [
        server.etag("some/model/m.gguf")
    ]


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
