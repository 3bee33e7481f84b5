"""The engines on this disk, as their manifests describe them. Trusts no folder without a whole manifest."""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_CPU_LINE = re.compile(r"(vendor_id|model name|flags|Features|CPU implementer|CPU part)\s*:")


@dataclass(frozen=True, slots=True)
class Engine:
    """`version` such as b11434, `backend` such as cpu, `built_at` an ISO time. `flags` are cmake's; an engine that was
    not built here has none. `sha256` is the binary's. `cpu` is empty for one that runs on every processor."""

    binary: Path
    version: str
    backend: str
    built_at: str
    flags: tuple[str, ...]
    sha256: str
    cpu: str

    @property
    def path(self) -> Path:
        return self.binary.parent


def list_engines(engines: Path) -> list[Engine]:
    """All that are whole, the newest first; also those for another processor."""
    # names with a dot are what the setup script is still at
    found = [engine for manifest in engines.glob("[!.]*/manifest.json") if (engine := _read(manifest)) is not None]
    return sorted(found, key=lambda engine: engine.built_at, reverse=True)


def find_engine(engines: Path, backend: str | None = None) -> Engine | None:
    """The newest engine for this machine's processor."""
    cpus = ("", cpu_key())
    return next((e for e in list_engines(engines) if e.cpu in cpus and backend in (None, e.backend)), None)


def _read(manifest: Path) -> Engine | None:
    try:
        data: Any = json.loads(manifest.read_text(encoding="utf-8"))
        engine = Engine(
            binary=manifest.parent / str(data["binary"]),
            version=str(data["version"]),
            backend=str(data["backend"]),
            built_at=str(data["built_at"]),
            flags=tuple(str(flag) for flag in data["cmake_flags"]),
            sha256=str(data["binary_sha256"]),
            cpu=str(data.get("cpu", "")),
        )
        return engine if os.access(engine.binary, os.X_OK) and engine.binary.is_file() else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def cpu_key(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Which processor this is: an engine built for another one ends with an illegal instruction. The setup script
    makes the same key, by grep, sort and sha256sum."""
    try:
        text = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    lines = sorted({line for line in text.split("\n") if _CPU_LINE.match(line)}, key=str.encode)
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()
