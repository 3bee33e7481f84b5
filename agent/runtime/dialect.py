"""Which flags an engine understands. BeeLlama and llama.cpp rename and drop flags between versions, so the binary is
asked: `--help` and `--version` once for each build, `--list-devices` each time (free memory changes)."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import signal
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from agent.config.profile import DialectName
from agent.errors import RuntimeFailure
from agent.runtime.process import run_lines

CACHE_FORMAT: Literal[1] = 1  # raise it when `Dialect` or its reading changes
ANSWER_LIMIT = 60.0  # seconds; `--help` takes 0.01 s, waking a GPU driver a few
NEVER_MISSING = frozenset({"--model", "--host", "--port", "--ctx-size", "--parallel"})
# Pairs for which the CUDA flash attention kernel is always built: ggml/CMakeLists.txt GGML_CUDA_FA_QUANTS of llama.cpp
# b11434. Any other pair may fall to a path several times slower.
FAST_PAIRS = frozenset((t, t) for t in ("f16", "bf16", "q8_0", "q4_0"))
BEE_FAST_PAIRS = FAST_PAIRS | {("q5_0", "q4_1")}  # BeeLlama's quickstarts use it with their default build

_FLAGS = re.compile(r"-{1,2}[A-Za-z0-9][\w.-]*(?:,\s+-{1,2}[A-Za-z0-9][\w.-]*)*")
_DEVICE = re.compile(r"\s+(\S+): (.*) \((\d+) MiB, (\d+) MiB free\)\s*")


@dataclass(frozen=True, slots=True)
class Dialect:
    """version: in the engine's own words. flags: all that its help lists, without those it lists as removed.
    spec_types: values of `--spec-type`; spec_list: it takes several of them. kv_types: values of `--cache-type-k`.
    trace: messages of the model library appear only at verbosity 4."""

    name: DialectName
    version: str
    flags: frozenset[str]
    spec_types: tuple[str, ...] = ()
    spec_list: bool = False
    kv_types: tuple[str, ...] = ()
    trace: bool = False

    def has(self, flag: str) -> bool:
        return flag in self.flags

    @property
    def dflash(self) -> str | None:
        """What it calls DFlash; None: it has none."""
        return next((t for t in ("draft-dflash", "dflash") if t in self.spec_types), None)

    @property
    def drafters(self) -> frozenset[str]:
        """Architectures of the drafters it loads (BeeLlama changelog 0.2 and 0.4; llama.cpp src/llama-arch.cpp)."""
        return frozenset({"dflash", "dflash-draft"} if self.name == "beellama-0.2" else {"dflash"})

    def fast_kv(self, k: str, v: str) -> bool:
        """Whether attention over a cache of these types is fast on a GPU, as the engine is built by default."""
        pairs = FAST_PAIRS if self.name == "llama.cpp" else BEE_FAST_PAIRS
        return (k, v) in pairs and {k, v} <= set(self.kv_types)


@dataclass(frozen=True, slots=True)
class _Seen:
    format: Literal[1]
    dialect: Dialect


_SEEN = TypeAdapter(_Seen)


@dataclass(frozen=True, slots=True)
class Device:
    """One accelerator as the engine sees it. total, free: MiB."""

    name: str
    description: str
    total: int
    free: int


def read_dialect(version_text: str, help_text: str) -> Dialect:
    """BeeLlama up to 0.3 is known by `--spec-dflash-cross-ctx`, from 0.4 on by `--spec-dm-controller`; whatever has
    neither speaks llama.cpp."""
    entries = {flag: text for flags, text in _entries(help_text) for flag in flags if "has been removed" not in text}
    name: DialectName = "llama.cpp"
    if "--spec-dflash-cross-ctx" in entries:
        name = "beellama-0.2"
    elif "--spec-dm-controller" in entries:
        name = "beellama-0.4"
    lines = [line.strip() for line in version_text.splitlines() if line.strip()]
    spec = entries.get("--spec-type", "")
    allowed = entries.get("--cache-type-k", "").partition("allowed values:")[2].partition("(")[0]
    return Dialect(
        name,
        version=next((line for line in lines if line.startswith("version:")), "").removeprefix("version:").strip(),
        flags=frozenset(entries),
        spec_types=tuple(re.findall(r"[a-z][\w-]*", spec.split(" ", 1)[0])),
        spec_list="comma-separated" in spec,
        kv_types=tuple(re.findall(r"\w+", allowed)),
        trace="4: trace" in entries.get("--verbosity", ""),
    )


def _entries(help_text: str) -> list[tuple[list[str], str]]:
    """(the names of a flag, what follows them as one line)"""
    found: list[tuple[list[str], str]] = []
    for line in help_text.splitlines():
        if names := _FLAGS.match(line):
            found.append((re.split(r",\s+", names.group()), line[names.end() :].strip()))
        elif found and line.startswith(" "):
            flags, text = found.pop()
            found.append((flags, f"{text} {line.strip()}".strip()))
    return found


def parse_devices(text: str) -> tuple[Device, ...]:
    """What `--list-devices` prints (llama.cpp b11434 common/arg.cpp, common_print_available_devices)."""
    found = (_DEVICE.fullmatch(line) for line in text.splitlines())
    return tuple(Device(m[1], m[2], int(m[3]), int(m[4])) for m in found if m)


async def probe_engine(binary: Path, cache: Path, env: Mapping[str, str]) -> tuple[Dialect, tuple[Device, ...]]:
    """`cache`: a folder for what was read before. `env`: as `engine_environment` makes it. Raises RuntimeFailure."""
    if not binary.is_file():
        raise RuntimeFailure(f"The engine {binary} is not there. Build the engine again.")
    if not os.access(binary, os.X_OK):
        raise RuntimeFailure(f"The engine {binary} may not be executed. Allow it: chmod +x {binary}")
    file = cache / f"{await asyncio.to_thread(_fingerprint, binary)}.json"
    dialect = _recall(file)
    if dialect is None:
        version = await _ask(binary, "--version", env)
        dialect = read_dialect(version, await _ask(binary, "--help", env))
        if not dialect.flags >= NEVER_MISSING:
            raise RuntimeFailure(f"{binary} is not a llama-server. Build the engine again.")
        _remember(file, dialect)
    return dialect, parse_devices(await _ask(binary, "--list-devices", env))


async def _ask(binary: Path, flag: str, env: Mapping[str, str]) -> str:
    lines: list[str] = []
    try:
        async with asyncio.timeout(ANSWER_LIMIT):
            status = await run_lines([str(binary), flag], env=env, on_line=lines.append)
    except TimeoutError:
        raise RuntimeFailure(
            f"The engine {binary} does not answer {flag}. Check the GPU driver (nvidia-smi), then start again."
        ) from None
    except RuntimeFailure as error:
        raise RuntimeFailure(f"The engine {binary} is no program for this machine. Build the engine again.") from error
    text = "\n".join(lines)
    if status == 0:
        return text
    if missing := re.search(r"error while loading shared libraries: ([^\s:]+)", text):
        driver = "Install the NVIDIA driver" if "libcuda.so" in missing[1] else "Build the engine again"
        why = f"The engine {binary} lacks the library {missing[1]}. {driver}."
    elif status == -signal.SIGILL:
        why = f"The engine {binary} was built for another processor. Build the engine again on this machine."
    else:
        why = f"{binary} is not a working llama-server: {flag} ended with status {status}. Build the engine again."
    raise RuntimeFailure(why, tuple(lines[-8:]))


def _fingerprint(binary: Path) -> str:
    """Of the program's content, and of the libraries beside it by name, size and time: the program itself may be a stub
    that is the same in every build."""
    with binary.open("rb") as program:
        digest = hashlib.file_digest(program, "sha256")
    for library in sorted(f for f in binary.resolve().parent.glob("*.so*") if f.is_file()):
        stat = library.stat()
        digest.update(f"{library.name} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _recall(file: Path) -> Dialect | None:
    """None: never read, or what stands there cannot be used."""
    try:
        return _SEEN.validate_json(file.read_bytes()).dialect
    except (OSError, ValidationError):
        return None


def _remember(file: Path, dialect: Dialect) -> None:
    """A place that cannot be written only costs the next start some milliseconds."""
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=file.parent, suffix=".part", delete=False) as part:
            part.write(_SEEN.dump_json(_Seen(CACHE_FORMAT, dialect)))
        Path(part.name).replace(file)
