"""The engines on this disk, as their manifests describe them. Trusts no folder without a whole manifest."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_CPU_LINE = re.compile(r"(vendor_id|model name|flags|Features|CPU implementer|CPU part)\s*:")


@dataclass(frozen=True, slots=True)
class Engine:
    """`version` such as b11434, `backend` such as cpu, `built_at` an ISO time."""

    binary: Path
    version: str
    backend: str
    built_at: str


def find_engine(engines: Path) -> Engine | None:
    """The newest engine that was built for this machine's processor."""
    found = [e for m in engines.glob("*/manifest.json") if (e := _read(m)) is not None] if engines.is_dir() else []
    return max(found, key=lambda e: e.built_at, default=None)


def _read(manifest: Path) -> Engine | None:
    try:
        data: Any = json.loads(manifest.read_text(encoding="utf-8"))
        binary = manifest.parent / str(data["binary"])
        if not binary.is_file() or data.get("cpu", "") not in ("", cpu_key()):
            return None
        return Engine(binary, str(data["version"]), str(data["backend"]), str(data["built_at"]))
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
