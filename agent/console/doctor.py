"""`dflash-agent doctor`: what a profile needs, what this machine has, and what to do about the difference."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from agent import __version__
from agent.config.paths import Paths
from agent.config.profile import ModelSource, Profile, Rung
from agent.errors import RuntimeFailure
from agent.runtime.command import engine_environment, ladder
from agent.runtime.dialect import Device, Dialect, probe_engine
from agent.runtime.engines import Engine
from agent.runtime.gguf import GgufFacts, check_draft, read_gguf
from agent.runtime.hardware import Machine, read_machine
from agent.runtime.launch import running
from agent.runtime.legacy import OLD
from agent.runtime.planbook import PlanBook
from agent.runtime.planner import table
from agent.runtime.provision import MachinePlanner, engine_here, with_cards
from agent.runtime.record import Home

Status: TypeAlias = Literal["ok", "warning", "missing"]
Locate: TypeAlias = Callable[[ModelSource], Path | None]
More: TypeAlias = Callable[[], Sequence["Check"]]
MARKS: dict[Status, str] = {"ok": "✓", "warning": "!", "missing": "✗"}
OK, CANNOT_START = 0, 3
GB = 10**9
FREE_DISK = 3 * GB  # below this a build or a session may run into a full disk


@dataclass(frozen=True, slots=True)
class Check:
    """missing: the profile cannot start without it. remedy: what to do, "" where nothing is to be done."""

    name: str
    status: Status
    found: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    profile: str
    checks: tuple[Check, ...]
    plan: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return all(c.status != "missing" for c in self.checks)


async def doctor(
    profile: Profile, paths: Paths, env: Mapping[str, str], locate: Locate, more: More, *, as_json: bool
) -> int:
    """`locate`: where a model file lies, None where it is not on this disk. `more`: checks of other parts."""
    report = await examine(profile, paths, env, locate, more)
    if as_json:
        data = {"version": __version__, "profile": report.profile, "ok": report.ok}
        print(json.dumps(data | {"checks": [asdict(c) for c in report.checks], "plan": report.plan}, indent=1))
    else:
        print("\n".join(text_of(report)))
    return OK if report.ok else CANNOT_START


def text_of(report: Report) -> Iterator[str]:
    width = max(len(c.name) for c in report.checks)
    for check in report.checks:
        yield f"{MARKS[check.status]} {check.name:{width}}  {check.found}"
        if check.remedy:
            yield f"  {'':{width}}  → {check.remedy}"
    if report.plan:
        yield from ("", *report.plan)
    yield ""
    yield f"Profile {report.profile} can start." if report.ok else f"Profile {report.profile} cannot start yet."


async def examine(
    profile: Profile, paths: Paths, env: Mapping[str, str], locate: Locate, others: More = tuple
) -> Report:
    machine = await asyncio.to_thread(read_machine, env)
    checks = [*_machine(profile, machine, paths), *_folders(paths)]
    engine = engine_here(paths.engines, profile.gpu)
    dialect, devices, check = await _engine(profile, engine, paths, env)
    checks += [check, *_tools(engine)]
    machine = with_cards(machine, devices if profile.gpu else ())
    files = {name: (s, locate(s)) for name, s in sources_of(profile)}
    checks += [_file(name, source, path) for name, (source, path) in files.items()]
    checks += await asyncio.to_thread(others)
    plan: tuple[str, ...] = ()
    target = files["model"][1]
    if dialect is not None and target is not None:
        more, plan = await asyncio.to_thread(
            _plan, profile, dialect, machine, {n: p for n, (_, p) in files.items() if p}, paths
        )
        checks += more
    if record := running(Home.of(paths.state, profile)):
        checks.append(Check("running", "ok", f"pid {record.pid}, port {record.port}, {record.rung or 'being checked'}"))
    return Report(profile.name, tuple(checks), plan)


def sources_of(profile: Profile) -> Iterator[tuple[str, ModelSource]]:
    for name, source in (("model", profile.model), ("draft", profile.draft), ("mtp draft", profile.mtp)):
        if source is not None:
            yield name, source


def _machine(profile: Profile, machine: Machine, paths: Paths) -> Iterator[Check]:
    linux = platform.system() == "Linux"
    words = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    words += f", glibc {machine.glibc or 'none'}"
    yield Check("system", "ok" if linux else "missing", words, "" if linux else "Use Linux.")
    if machine.gpus:
        for gpu in machine.gpus:
            words = f"{gpu.name}, {gpu.free / GB:.1f} of {gpu.total / GB:.1f} GB free"
            yield Check("GPU", "ok", f"{words}, driver {machine.driver}, CUDA {machine.cuda}")
            if gpu.users:
                users = ", ".join(f"{u.name} (pid {u.pid}, {(u.bytes or 0) / GB:.1f} GB)" for u in gpu.users)
                yield Check("GPU in use", "warning" if profile.gpu else "ok", users, "Close what you do not need.")
    elif profile.gpu:
        remedy = "Install the NVIDIA driver, use --profile smoke, or a server elsewhere (--server URL)."
        yield Check("GPU", "missing", machine.no_gpu, remedy)
    else:
        yield Check("GPU", "ok", f"none, and this profile needs none ({machine.no_gpu})")
    ram = f"{machine.ram_available / GB:.1f} of {machine.ram_total / GB:.1f} GB free, {machine.cores} cores"
    yield Check("memory", "ok", f"{ram}, {machine.cpu}")
    limit = "no limit" if machine.memlock is None else f"{machine.memlock / GB:.2f} GB"
    low = profile.gpu and machine.memlock is not None and machine.memlock < GB
    remedy = "Raise it (ulimit -l) so that the engine may keep its host memory from being swapped."
    yield Check("memlock", "warning" if low else "ok", limit, remedy if low else "")
    free = shutil.disk_usage(_existing(paths.data)).free
    room = "Free some space, or move the data with DFLASH_HOME." if free < FREE_DISK else ""
    yield Check("disk", "warning" if room else "ok", f"{free / GB:.1f} GB free at {paths.data}", room)


def _existing(path: Path) -> Path:
    return path if path.exists() else _existing(path.parent)


def _folders(paths: Paths) -> Iterator[Check]:
    wrong = [p for p in (paths.config, paths.state, paths.data, paths.cache) if not os.access(_existing(p), os.W_OK)]
    if wrong:
        remedy = "Make it writable, or set DFLASH_HOME to another place."
        yield Check("folders", "missing", f"{', '.join(map(str, wrong))}: cannot be written", remedy)
    else:
        yield Check("folders", "ok", f"{paths.state}, {paths.data}")


async def _engine(
    profile: Profile, engine: Engine | None, paths: Paths, env: Mapping[str, str]
) -> tuple[Dialect | None, Sequence[Device], Check]:
    remedy = f"Get one: dflash-agent setup --profile {profile.name}"
    if engine is None:
        return None, (), Check("engine", "missing", f"none for this profile in {paths.engines}", remedy)
    try:
        environment = engine_environment(env, "", paths.logs)
        dialect, devices = await probe_engine(engine.binary, paths.cache / "dialects", environment)
    except RuntimeFailure as failure:
        return None, (), Check("engine", "missing", f"{engine.binary}: {failure}", remedy)
    words = f"{engine.version} ({engine.backend}), speaks {dialect.name}, sees "
    words += ", ".join(d.description for d in devices) or "no accelerator"
    if profile.gpu and not devices:
        return dialect, devices, Check("engine", "missing", words, "Check the driver (nvidia-smi), then " + remedy)
    drafting = [r for r in ladder(profile, dialect) if r != "plain"]
    note = "" if drafting or profile.draft is None else "This engine cannot draft with DFlash: " + remedy
    return dialect, devices, Check("engine", "warning" if note else "ok", words, note)


def _tools(engine: Engine | None) -> Iterator[Check]:
    """What builds an engine, where there is none yet."""
    wanted = ("git",) if engine else ("git", "cmake", "c++")
    lacking = [t for t in wanted if shutil.which(t) is None]
    remedy = f"Install: sudo apt install {' '.join('g++' if t == 'c++' else t for t in lacking)}" if lacking else ""
    status: Status = "ok" if not lacking else "warning" if engine else "missing"
    yield Check("tools", status, f"{', '.join(lacking)} missing" if lacking else ", ".join(wanted), remedy)


def _file(name: str, source: ModelSource, path: Path | None) -> Check:
    if path is not None and path.is_file():
        return Check(name, "ok", f"{path} ({path.stat().st_size / GB:.2f} GB)")
    if source.kind == "file":
        return Check(name, "missing", f"{source.path} is not there", "Put it there, or correct the profile.")
    what = f"{source.file} of {source.repo}" if source.kind == "hub" else "the smoke model"
    size = f" ({source.bytes / GB:.1f} GB)" if source.bytes else ""
    return Check(name, "warning", f"{what}{size} is not on this disk", "It is fetched at the first start.")


def _plan(
    profile: Profile, dialect: Dialect, machine: Machine, files: Mapping[str, Path], paths: Paths
) -> tuple[list[Check], tuple[str, ...]]:
    checks: list[Check] = []
    try:
        target = read_gguf(files["model"])
    except RuntimeFailure as failure:
        return [Check("model", "missing", str(failure))], ()
    drafters: dict[Rung, GgufFacts] = {}
    if draft := files.get("draft"):
        try:
            drafters["dflash"] = read_gguf(draft)
            if drafters["dflash"].architecture == OLD not in dialect.drafters:
                checks.append(Check("draft format", "ok", f"{OLD}; it is converted once, beside the old file"))
            else:
                check_draft(target, drafters["dflash"], dialect.drafters)
        except RuntimeFailure as failure:
            checks.append(Check("draft fits", "warning", str(failure), "It runs without this draft."))
    planner = MachinePlanner(profile, dialect, target, drafters, machine, PlanBook(paths.state / "plans.json"))
    try:
        plan = planner.first("dflash" if drafters and all(c.status == "ok" for c in checks) else "plain")
    except RuntimeFailure as failure:
        return [*checks, Check("plan", "missing", str(failure))], ()
    short = plan.ctx < profile.ctx
    remedy = f"{profile.ctx} tokens are wished; the model or the memory allows no more." if short else ""
    words = f"context {plan.ctx} tokens, KV {plan.cache_type_k}/{plan.cache_type_v}"
    return [*checks, Check("plan", "warning" if short else "ok", words, remedy)], tuple(table(plan).splitlines())
