"""What a machine says of itself. NVML is the edge and faked; /proc and the control groups are files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agent.runtime.hardware import Gpu, GpuUser, read_machine

GIB = 1 << 30


class NvmlError(Exception):
    pass


@dataclass
class FakeNvml:
    """The functions of `pynvml` that are used. cards: (name, uuid, total, free, (pid, bytes)...); None: a card that
    does not answer."""

    cards: list[tuple[str, str, int, int, list[tuple[int, int | None]]] | None]
    fails: str = ""
    NVMLError: type[Exception] = NvmlError
    calls: list[str] = field(default_factory=list)

    def nvmlInit(self) -> None:
        if self.fails:
            raise NvmlError(self.fails)
        self.calls.append("init")

    def nvmlShutdown(self) -> None:
        self.calls.append("shutdown")

    def nvmlSystemGetDriverVersion(self) -> str:
        return "550.54.14"

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:
        return 12040

    def nvmlDeviceGetCount(self) -> int:
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any:
        if self.cards[index] is None:
            raise NvmlError("GPU is lost")
        return self.cards[index]

    def nvmlDeviceGetName(self, card: Any) -> bytes:
        return card[0].encode()

    def nvmlDeviceGetUUID(self, card: Any) -> str:
        return card[1]

    def nvmlDeviceGetMemoryInfo(self, card: Any) -> Any:
        return SimpleNamespace(total=card[2], free=card[3], used=card[2] - card[3])

    def nvmlDeviceGetCudaComputeCapability(self, card: Any) -> tuple[int, int]:
        return 8, 9

    def nvmlDeviceGetComputeRunningProcesses(self, card: Any) -> list[Any]:
        return [SimpleNamespace(pid=pid, usedGpuMemory=size) for pid, size in card[4]]

    def nvmlDeviceGetGraphicsRunningProcesses(self, card: Any) -> list[Any]:
        raise NvmlError("Not Supported")

    def nvmlSystemGetProcessName(self, pid: int) -> str:
        if pid == 7:
            raise NvmlError("Not Found")
        return f"/usr/bin/game-{pid} --full"


def rtx(number: int = 1, users: list[tuple[int, int | None]] | None = None) -> Any:
    return (f"NVIDIA GeForce RTX {number}", f"GPU-{number}aaa", 24 * GIB, 20 * GIB, users or [])


def files(root: Path, contents: Mapping[str, str]) -> Path:
    for name, text in contents.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_cards_are_read_with_who_uses_them(tmp_path: Path) -> None:
    proc = files(tmp_path, {"31/comm": "Xorg\x1b[31m\n"})
    nvml = FakeNvml([rtx(4090, [(31, 300), (32, 900), (7, None)])])
    machine = read_machine({}, proc, tmp_path, nvml)
    users = (GpuUser(32, "game-32", 900), GpuUser(31, "Xorg?[31m", 300), GpuUser(7, "unknown", None))
    assert machine.gpus == (Gpu("NVIDIA GeForce RTX 4090", "GPU-4090aaa", 24 * GIB, 20 * GIB, "8.9", users),)
    assert (machine.driver, machine.cuda, machine.no_gpu) == ("550.54.14", "12.4", "")
    assert nvml.calls == ["init", "shutdown"]


@pytest.mark.parametrize(
    ("nvml", "env", "says"),
    [
        (FakeNvml([], fails="NVML Shared Library Not Found"), {}, "Shared Library Not Found"),
        (FakeNvml([]), {}, "knows no card"),
        (FakeNvml([None]), {}, "card 0 does not answer (GPU is lost)"),
        (FakeNvml([rtx()]), {"CUDA_VISIBLE_DEVICES": ""}, "CUDA_VISIBLE_DEVICES='' hides them"),
        (FakeNvml([rtx()]), {"CUDA_VISIBLE_DEVICES": "-1"}, "hides them"),
    ],
)
def test_no_card_is_an_answer_with_its_reason(tmp_path: Path, nvml: FakeNvml, env: dict[str, str], says: str) -> None:
    machine = read_machine(env, tmp_path, tmp_path, nvml)
    assert machine.gpus == () and says in machine.no_gpu


def test_the_installed_library_answers_on_any_machine() -> None:
    machine = read_machine(os.environ)
    assert bool(machine.gpus) != bool(machine.no_gpu)
    assert 1 <= machine.cores <= (os.cpu_count() or 1) and 0 < machine.ram_available <= machine.ram_total
    assert machine.cpu


@pytest.mark.parametrize(
    ("wanted", "seen"),
    [("1", [2]), ("1,0", [2, 1]), ("GPU-2", [2]), ("0,9,1", [1]), ("1,1", [2]), ("0, 1", [1, 2])],
)
def test_cards_are_seen_as_cuda_will_see_them(tmp_path: Path, wanted: str, seen: list[int]) -> None:
    machine = read_machine({"CUDA_VISIBLE_DEVICES": wanted}, tmp_path, tmp_path, FakeNvml([rtx(1), rtx(2)]))
    assert [g.uuid for g in machine.gpus] == [f"GPU-{n}aaa" for n in seen]


MEMINFO = "MemTotal:  1000 kB\nMemFree:  10 kB\nMemAvailable:  600 kB\n"
KIB = 1024


@pytest.mark.parametrize(
    ("groups", "memory"),
    [
        ({}, (1000, 600)),
        ({"memory.max": "max", "memory.current": "5"}, (1000, 600)),
        ({"a/b/memory.max": f"{400 * KIB}", "a/b/memory.current": f"{300 * KIB}"}, (400, 100)),
        (
            {
                "a/memory.max": f"{400 * KIB}",
                "a/memory.current": f"{300 * KIB}",
                "a/memory.stat": f"anon 1\ninactive_file {200 * KIB}\n",
            },
            (400, 300),
        ),
        ({"memory/x/memory.limit_in_bytes": f"{90 * KIB}", "memory/x/memory.usage_in_bytes": f"{95 * KIB}"}, (90, 0)),
        ({"memory/memory.limit_in_bytes": str(2**63 - 4096), "memory/memory.usage_in_bytes": "9"}, (1000, 600)),
    ],
)
def test_memory_is_what_the_control_group_leaves(
    tmp_path: Path, groups: dict[str, str], memory: tuple[int, int]
) -> None:
    proc = files(tmp_path / "proc", {"meminfo": MEMINFO, "self/cgroup": "4:memory:/x\n3:cpuset:/x\n0::/a/b\n"})
    machine = read_machine({}, proc, files(tmp_path / "cgroup", groups), FakeNvml([]))
    assert (machine.ram_total // KIB, machine.ram_available // KIB) == memory


@pytest.mark.parametrize(
    "groups",
    [
        {"a/cpu.max": "150000 100000\n"},
        {"cpu.max": "100000 100000\n", "a/b/cpu.max": "max 100000\n"},
        {"cpu/x/cpu.cfs_quota_us": "50000\n", "cpu/x/cpu.cfs_period_us": "100000\n"},
    ],
)
def test_processors_are_what_the_control_group_grants(tmp_path: Path, groups: dict[str, str]) -> None:
    proc = files(tmp_path / "proc", {"self/cgroup": "1:cpu,cpuacct:/x\n0::/a/b\n"})
    assert read_machine({}, proc, files(tmp_path / "cgroup", groups), FakeNvml([])).cores == 1


def test_a_group_without_a_limit_leaves_all_processors(tmp_path: Path) -> None:
    proc = files(tmp_path / "proc", {"self/cgroup": "1:cpu:/\n0::/\nrubbish\n"})
    groups = {"cpu.max": "max 100000\n", "cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}
    machine = read_machine({}, proc, files(tmp_path / "cgroup", groups), FakeNvml([]))
    assert machine.cores == len(os.sched_getaffinity(0))
