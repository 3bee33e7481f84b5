"""What this machine has: graphics cards through NVML, processors and memory through /proc and the control groups.

A machine without an NVIDIA card or driver is a normal answer, with the reason in words.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pynvml  # pyright: ignore[reportMissingTypeStubs] (none exist)


@dataclass(frozen=True, slots=True)
class GpuUser:
    """A process that holds memory of a card; bytes is None where the driver does not tell."""

    pid: int
    name: str
    bytes: int | None


@dataclass(frozen=True, slots=True)
class Gpu:
    """total, free: bytes of its memory. compute_capability: such as 8.9. users: largest first."""

    name: str
    uuid: str
    total: int
    free: int
    compute_capability: str = ""
    users: tuple[GpuUser, ...] = ()


@dataclass(frozen=True, slots=True)
class Machine:
    """gpus: those an engine started by us may use; no_gpu: why there are none. driver, cuda: of the NVIDIA driver, the
    latter the newest CUDA it can serve. cores: processors we may keep busy. ram_*: bytes, as our control group allows.
    memlock: bytes we may lock into memory, None: any number. glibc: "" on another C library."""

    gpus: tuple[Gpu, ...] = ()
    no_gpu: str = ""
    driver: str = ""
    cuda: str = ""
    cores: int = 1
    cpu: str = ""
    ram_total: int = 0
    ram_available: int = 0
    memlock: int | None = 0
    glibc: str = ""


def read_machine(
    env: Mapping[str, str], proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup"), nvml: Any = pynvml
) -> Machine:
    """Takes milliseconds, with a sleeping card up to seconds. Raises nothing: what cannot be read counts as absent."""
    gpus, no_gpu, driver, cuda = _gpus(env, proc, nvml)
    total, available = _memory(proc, cgroup)
    soft = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    return Machine(
        gpus=gpus,
        no_gpu=no_gpu,
        driver=driver,
        cuda=cuda,
        cores=_cores(proc, cgroup),
        cpu=_field(proc / "cpuinfo", "model name"),
        ram_total=total,
        ram_available=available,
        memlock=None if soft == resource.RLIM_INFINITY else soft,
        glibc=_glibc(),
    )


def _gpus(env: Mapping[str, str], proc: Path, nvml: Any) -> tuple[tuple[Gpu, ...], str, str, str]:
    """(cards, why there are none, driver, CUDA)"""
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return (), f"no NVIDIA driver answers ({error})", "", ""
    try:
        driver = _text(nvml.nvmlSystemGetDriverVersion())
        number = int(nvml.nvmlSystemGetCudaDriverVersion_v2())  # 12040 is 12.4
        gpus: list[Gpu] = []
        why = "the NVIDIA driver knows no card"
        for index in range(nvml.nvmlDeviceGetCount()):
            try:
                gpus.append(_gpu(nvml, index, proc))
            except nvml.NVMLError as error:
                why = f"card {index} does not answer ({error})"
        seen = _visible(gpus, env.get("CUDA_VISIBLE_DEVICES"))
        if gpus and not seen:
            why = f"CUDA_VISIBLE_DEVICES={env['CUDA_VISIBLE_DEVICES']!r} hides them"
        return seen, "" if seen else why, driver, f"{number // 1000}.{number % 1000 // 10}"
    except nvml.NVMLError as error:
        return (), f"the NVIDIA driver fails ({error})", "", ""
    finally:
        with suppress(nvml.NVMLError):
            nvml.nvmlShutdown()


def _gpu(nvml: Any, index: int, proc: Path) -> Gpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    used: dict[int, int | None] = {}
    for processes in (nvml.nvmlDeviceGetComputeRunningProcesses, nvml.nvmlDeviceGetGraphicsRunningProcesses):
        with suppress(nvml.NVMLError):
            used |= {int(p.pid): p.usedGpuMemory for p in processes(handle)}
    users = (GpuUser(pid, _process_name(nvml, pid, proc), size) for pid, size in used.items())
    return Gpu(
        name=_text(nvml.nvmlDeviceGetName(handle)),
        uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
        total=int(memory.total),
        free=int(memory.free),
        compute_capability=f"{major}.{minor}",
        users=tuple(sorted(users, key=lambda u: (-(u.bytes or 0), u.pid))),
    )


def _process_name(nvml: Any, pid: int, proc: Path) -> str:
    """/proc gives it without arguments; a process of another user's container is known to the driver alone."""
    name = _read(proc / str(pid) / "comm").strip()
    if not name:
        with suppress(nvml.NVMLError):
            name = Path(_text(nvml.nvmlSystemGetProcessName(pid)).split(" ", 1)[0]).name
    return _printable(name) or "unknown"


def _visible(gpus: list[Gpu], wanted: str | None) -> tuple[Gpu, ...]:
    """As CUDA reads its variable: numbers or beginnings of UUIDs, up to the first that names nothing. (CUDA numbers the
    fastest card first, NVML by slot; with unequal cards CUDA_DEVICE_ORDER=PCI_BUS_ID makes them agree.)"""
    if wanted is None:
        return tuple(gpus)
    found: list[Gpu] = []
    for word in (w.strip() for w in wanted.split(",")):
        if word.isdecimal() and int(word) < len(gpus):
            found.append(gpus[int(word)])
        elif word and not word.isdecimal() and (named := [g for g in gpus if g.uuid.startswith(word)]):
            found.append(named[0])
        else:
            break
    return tuple(dict.fromkeys(found))


def _cores(proc: Path, cgroup: Path) -> int:
    cores = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    for folder in _groups(proc, cgroup, "cpu"):
        quota, _, period = _read(folder / "cpu.max").strip().partition(" ")
        quota = quota or _read(folder / "cpu.cfs_quota_us").strip()
        period = period or _read(folder / "cpu.cfs_period_us").strip()
        if quota.isdecimal() and period.isdecimal() and int(period):  # neither "max" nor -1, which say: no limit
            cores = min(cores, int(quota) / int(period))
    return max(1, int(cores))


def _memory(proc: Path, cgroup: Path) -> tuple[int, int]:
    """(total, available) bytes. Pages of files that are not in use count as available."""
    total, available = (_kib(_field(proc / "meminfo", name)) for name in ("MemTotal", "MemAvailable"))
    if not total:  # no /proc: another Unix
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        available = total // 2
    for folder in _groups(proc, cgroup, "memory"):
        limit = _read(folder / "memory.max") or _read(folder / "memory.limit_in_bytes")
        used = _read(folder / "memory.current") or _read(folder / "memory.usage_in_bytes")
        if not (limit.strip().isdecimal() and used.strip().isdecimal()):
            continue
        cached = _field(folder / "memory.stat", "total_inactive_file", " ")
        cached = cached or _field(folder / "memory.stat", "inactive_file", " ")
        total = min(total, int(limit))
        available = min(available, max(0, int(limit) - int(used) + (int(cached) if cached.isdecimal() else 0)))
    return total, available


def _groups(proc: Path, cgroup: Path, controller: str) -> Iterator[Path]:
    """Our control group's folder and all above it, of version 2 and of version 1. Inside a container the path may be
    the host's; then only its upper end exists."""
    for line in _read(proc / "self" / "cgroup").splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers and controller not in controllers.split(","):
            continue
        base = cgroup / controller if controllers else cgroup
        folder = base / path.lstrip("/")
        yield folder
        while folder != base and folder.parent != folder:
            folder = folder.parent
            yield folder


def _field(file: Path, name: str, separator: str = ":") -> str:
    for line in _read(file).splitlines():
        key, found, value = line.partition(separator)
        if found and key.strip() == name:
            return _printable(value.strip())
    return ""


def _kib(text: str) -> int:
    number = text.split(" ", 1)[0]
    return int(number) * 1024 if number.isdecimal() else 0


def _glibc() -> str:
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").removeprefix("glibc ")
    except (ValueError, OSError):
        return ""


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _text(value: Any) -> str:
    """NVML's strings are bytes in some versions of its library."""
    return _printable(value.decode(errors="replace") if isinstance(value, bytes) else str(value))


def _printable(text: str) -> str:
    """A process may call itself anything, and its name ends on a screen."""
    return "".join(c if c.isprintable() else "?" for c in text)
