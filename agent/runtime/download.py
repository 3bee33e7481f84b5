"""Model files from the Hugging Face hub, into its usual cache, so that other programs find them there.

The transfer is ours: since its version 1.18 the hub library begins each broken download anew, and it never looks
whether what came is what was asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import os
import shutil
import threading
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import httpx2

from agent.config.profile import ModelSource
from agent.errors import RuntimeFailure
from agent.progress import Phase, Report, size, size_of
from agent.runtime.hub import Hub, Remote, cached, describe, explained, parts_of, retry_after
from agent.runtime.lock import FileLock

BLOCK = 1 << 20  # bytes read at a time
SYNC_EVERY = 64 << 20  # bytes: at most so many are fetched again after a power cut
TRIES = 6  # in a row without a byte; each byte that comes gives them back
PAUSE = 1.0  # seconds before the third try in a row, doubled for each further one
SILENCE = 30.0  # seconds without a byte
LONGEST_WAIT = 60.0  # seconds that a server may ask for; longer than that is better told
RESERVE = 256 << 20  # bytes of the disk that are left alone
REPORT_EVERY = 0.5  # seconds
RATE_OVER = 20  # reports: the rate is that of the last ten seconds


async def fetch(hub: Hub, sources: Sequence[ModelSource], report: Report) -> list[Path]:
    """The files of `sources`, in their order, each whole and with the checksum that the hub names. All are asked for,
    and room for all is made sure of, before the first byte. What is there already costs no request. Cancelled, it
    keeps what has come. Raises RuntimeFailure."""
    found = [cached(hub, s) for s in sources]
    missing = [s for s, path in zip(sources, found, strict=True) if path is None]
    if not missing:
        return [p for p in found if p is not None]
    if hub.offline:
        names = ", ".join(f"{s.file} of {s.repo}" for s in missing)
        raise RuntimeFailure(f"{names}: not on this disk, and offline mode forbids fetching. Start once without it.")
    report(Phase("models", f"asking {hub.endpoint}"))
    remotes = [await asyncio.to_thread(describe, hub, s) for s in missing]
    _make_sure_of_room(hub, remotes)
    fetched = {remote.source: await _fetch(remote, report) for remote in remotes}
    return [path or fetched[s] for s, path in zip(sources, found, strict=True)]


def _make_sure_of_room(hub: Hub, remotes: Sequence[Remote]) -> None:
    needed = sum(max(0, r.size - r.here) for r in remotes) + RESERVE
    place = hub.cache
    try:
        place.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(place).free
    except OSError as error:
        raise RuntimeFailure(f"{place} cannot be written: {error.strerror}. Set HF_HOME to another place.") from error
    if free < needed:
        raise RuntimeFailure(
            f"The models need {size(needed)} and {size(free)} are free at {place}. "
            "Free some space, or set HF_HOME to another disk."
        )


async def _fetch(remote: Remote, report: Report) -> Path:
    """One download for all processes: who comes second waits for the first."""
    try:
        with FileLock(remote.lock) as lock:
            while not lock.take():
                report(_phase(remote, "another window is fetching", remote.here))
                await asyncio.sleep(REPORT_EVERY)
            if not remote.blob.exists():
                remote.lock.write_text(remote.source.file, encoding="utf-8")
                _forget_other_versions(remote)
                await _in_thread(remote, report)
            path = _publish(remote)
            remote.lock.unlink(missing_ok=True)  # whoever waits for it finds the file
            return path
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            come = size_of(remote.here, remote.size)
            raise RuntimeFailure(
                f"The disk is full: {come} of {remote.source.file} have come and stay in {remote.part}. "
                "Free some space, then start again."
            ) from error
        raise RuntimeFailure(
            f"{remote.source.file} cannot be stored in {remote.part.parent}: {error.strerror or error}. "
            "Set HF_HOME to another place."
        ) from error


def _forget_other_versions(remote: Remote) -> None:
    """A file that has changed on the hub leaves gigabytes that nobody will ever ask for again."""
    for part in parts_of(remote.blob.parent, remote.source.file):
        if part != remote.part:
            with FileLock(part.with_name(f"{part.name}.lock")) as lock:
                if lock.take():
                    part.unlink()
                    part.with_name(f"{part.name}.lock").unlink()


async def _in_thread(remote: Remote, report: Report) -> None:
    stop = threading.Event()
    loop = asyncio.get_running_loop()

    def tell(phase: Phase) -> None:
        loop.call_soon_threadsafe(report, phase)

    transfer = Transfer(remote, stop, tell)
    work = asyncio.ensure_future(asyncio.to_thread(transfer.run))
    try:
        await asyncio.shield(work)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait([work])
        raise


def _publish(remote: Remote) -> Path:
    """Where the hub library looks for it."""
    pointer = remote.folder / "snapshots" / remote.commit / remote.source.file
    pointer.parent.mkdir(parents=True, exist_ok=True)
    if not pointer.exists():
        pointer.unlink(missing_ok=True)
        pointer.symlink_to(os.path.relpath(remote.blob, pointer.parent))
    if remote.source.revision != remote.commit:
        ref = remote.folder / "refs" / remote.source.revision
        ref.parent.mkdir(parents=True, exist_ok=True)
        ref.write_text(remote.commit)
    return pointer


class _Stopped(Exception):
    pass


class Transfer:
    """One file into its part, in a thread. What has come is kept, whatever happens, unless it is not the right file."""

    def __init__(self, remote: Remote, stop: threading.Event, report: Report) -> None:
        self._remote = remote
        self._stop = stop
        self._report = report
        self._digest = hashlib.sha256()
        self._done = 0
        self._told = time.monotonic()
        self._came: deque[tuple[float, int]] = deque(maxlen=RATE_OVER)  # when, and how much was here then
        self._unsynced = 0

    def run(self) -> None:
        """Raises RuntimeFailure, OSError."""
        remote = self._remote
        remote.part.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(_Stopped), remote.part.open("ab") as part:
            self._check_what_is_here(part)
            self._transfer(part)
            part.flush()
            os.fsync(part.fileno())
            if self._digest.hexdigest() != remote.etag:
                part.truncate(0)
                raise RuntimeFailure(
                    f"{remote.source.file} arrived with another content than the hub names (its sha256 differs), and "
                    "was thrown away. Start again; if it happens again, a proxy changes it."
                )
            remote.part.replace(remote.blob)

    def _check_what_is_here(self, part: IO[bytes]) -> None:
        """The checksum so far, of what an earlier run has left."""
        here = part.seek(0, os.SEEK_END)
        if here > self._remote.size:
            part.truncate(0)
            here = 0
        with self._remote.part.open("rb") as before:
            while block := before.read(BLOCK):
                self._look("checking what is here of", before.tell())
                self._digest.update(block)
        self._done = here
        self._came.clear()

    def _transfer(self, part: IO[bytes]) -> None:
        left, pause = TRIES, 0.0
        while self._done < self._remote.size:
            before = self._done
            try:
                self._request(part)
                why = "the connection ended early"
            except httpx2.HTTPStatusError as error:
                wait = retry_after(error) or 0.0
                if error.response.status_code not in (429, 500, 502, 503, 504) or wait > LONGEST_WAIT:
                    raise explained(error, self._remote.hub, self._remote.source) from error
                why, pause = f"status {error.response.status_code}", max(pause, wait)
            except httpx2.HTTPError as error:
                why = str(error) or type(error).__name__
            if self._done > before:
                left, pause = TRIES, 0.0
            left -= 1
            if self._done >= self._remote.size:
                return
            if left <= 0:
                raise RuntimeFailure(
                    f"{self._remote.source.file} broke off at {size_of(self._done, self._remote.size)} ({why}). "
                    "Start again: it goes on from there."
                )
            file = self._remote.source.file
            self._report(Phase("models", f"fetching {file}: {why}; trying again", file))
            if self._stop.wait(pause):
                raise _Stopped
            pause = min(2 * pause or PAUSE, 30.0)

    def _request(self, part: IO[bytes]) -> None:
        headers = {"Accept-Encoding": "identity"}
        if token := self._remote.hub.token:
            headers["Authorization"] = f"Bearer {token}"
        if self._done:
            headers["Range"] = f"bytes={self._done}-"
        with (
            httpx2.Client(follow_redirects=True, timeout=httpx2.Timeout(SILENCE, connect=10.0)) as client,
            client.stream("GET", self._remote.url, headers=headers) as answer,
        ):
            answer.raise_for_status()
            self._belongs(answer)
            if self._done and answer.status_code != 206:  # the server knows no ranges
                part.truncate(0)
                self._digest = hashlib.sha256()
                self._done = 0
            for block in answer.iter_raw():
                if self._stop.is_set():
                    raise _Stopped
                if self._done + len(block) > self._remote.size:
                    raise self._stranger("more bytes came than the hub names")
                part.write(block)
                self._digest.update(block)
                self._done += len(block)
                self._synced(part, len(block))
                self._look("fetching", self._done)

    def _belongs(self, answer: httpx2.Response) -> None:
        """Not a login page, nor another version of the file."""
        if answer.headers.get("Content-Type", "").startswith("text/html"):
            raise self._stranger("a web page came instead")
        total = answer.headers.get("Content-Range", "").rpartition("/")[2] or None
        if answer.status_code != 206:
            total = answer.headers.get("Content-Length")
        if total is not None and total.isdecimal() and int(total) != self._remote.size:
            raise self._stranger(f"{total} bytes are offered instead of {self._remote.size}")

    def _stranger(self, why: str) -> RuntimeFailure:
        return RuntimeFailure(f"{self._remote.source.file} is not what the hub names: {why}. Check proxy and network.")

    def _synced(self, part: IO[bytes], count: int) -> None:
        self._unsynced += count
        if self._unsynced >= SYNC_EVERY:
            part.flush()
            os.fdatasync(part.fileno())
            self._unsynced = 0

    def _look(self, doing: str, done: int) -> None:
        if self._stop.is_set():
            raise _Stopped
        now = time.monotonic()
        if now - self._told >= REPORT_EVERY:
            self._told = now
            self._came.append((now, done))
            since, then = self._came[0]
            self._report(_phase(self._remote, doing, done, (done - then) / (now - since) if now > since else 0.0))


def _phase(remote: Remote, doing: str, done: int, rate: float = 0.0) -> Phase:
    file = remote.source.file
    return Phase("models", f"{doing} {file}", file, done, remote.size, rate=max(0.0, rate))
