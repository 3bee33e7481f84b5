"""What this machine has, and what each profile would take on it. Asks nobody, builds and fetches nothing."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.config.paths import Paths
from agent.config.profile import NAMES, ModelSource, Profile, known_profiles, load_profile, rungs
from agent.errors import ConfigError, RuntimeFailure
from agent.progress import size
from agent.runtime.engines import list_engines
from agent.runtime.gguf import GgufFacts, read_gguf
from agent.runtime.hardware import Machine, read_machine
from agent.runtime.known import KNOWN
from agent.runtime.planner import GIB, Wish, make_plan
from agent.runtime.provision import SMOKE_BYTES, SMOKE_FILE, engine_here
from agent.survey import Need, NeedKind, Offer, Survey

BIG_CARD = 22 * GIB  # bytes of one card: what Gemma 4 31B at four bits and its draft need, with a context of use
ON_BIG_CARD, ANYWHERE = "gemma4-31b-dflash", "smoke"
_QUANTISATION = re.compile(r"(?:^|[-._])((?:I?Q\d|BF16|F16|F32|MXFP4)\w*)", re.I)
BUILD_CPU, BUILD_GPU = "5 to 20 min", "2 to 60 min"  # the setup script's own words; a release archive takes minutes


@dataclass(frozen=True, slots=True)
class Disk:
    """locate: where a model file lies, None where it is not whole. come: bytes of it that have come already. folder:
    where models go."""

    locate: Callable[[ModelSource], Path | None]
    come: Callable[[ModelSource], int]
    folder: Path


def suited(machine: Machine) -> tuple[str, str]:
    """The profile for a machine whose user has not chosen, and why."""
    largest = max((g.total for g in machine.gpus), default=0)
    if largest >= BIG_CARD:
        return ON_BIG_CARD, f"Proposed because a GPU with {largest / GIB:.0f} GiB was found."
    found = f"the largest here has {largest / GIB:.0f}" if largest else "none was found"
    return ANYWHERE, f"Proposed because {ON_BIG_CARD} needs a GPU with {BIG_CARD // GIB} GiB or more, and {found}."


def look(
    paths: Paths,
    env: Mapping[str, str],
    disk: Disk,
    asked: tuple[str, str] | None,
    seconds: Callable[[str], float | None],
) -> Survey:
    """May take seconds (sleeping cards, large headers): call it in a thread. asked: the profile that is to run and why,
    None: whatever suits the machine. seconds: of the last start of a profile."""
    machine = read_machine(env)
    proposed, why = asked or suited(machine)
    folders = (paths.config / "profiles",)
    offers: list[Offer] = []
    for name in known_profiles(folders):
        try:
            offers.append(_offer(load_profile(name, folders), machine, paths, disk, seconds(name)))
        except (ConfigError, RuntimeFailure) as error:
            offers.append(Offer(name, name, "", "", 0, "", (), str(error)))
    offers.sort(key=lambda o: (o.profile != proposed, bool(o.obstacle), not o.ready, o.profile))
    return Survey(tuple(_found(machine, paths, disk, offers)), tuple(offers), proposed, why, _free(disk.folder))


def _found(machine: Machine, paths: Paths, disk: Disk, offers: Sequence[Offer]) -> Iterator[tuple[str, str]]:
    for gpu in machine.gpus:
        yield "GPU", f"{gpu.name}, {gpu.free / GIB:.1f} of {gpu.total / GIB:.1f} GiB free"
    if not machine.gpus:
        yield "GPU", f"none: {machine.no_gpu}"
    free, total = machine.ram_available / GIB, machine.ram_total / GIB
    words = f"{machine.cores} cores, {free:.1f} of {total:.1f} GiB memory free, "
    yield "Machine", words + f"{size(_free(disk.folder))} disk free"
    engines = [f"{e.version} ({e.backend})" for e in list_engines(paths.engines)]
    yield "Engine", ", ".join(engines) or "none yet"
    models = sorted({n.name for o in offers for n in o.needs if n.kind != "engine" and n.here})
    yield "Models", ", ".join(models) or "none yet"


def _free(folder: Path) -> int:
    return shutil.disk_usage(next(f for f in (folder, *folder.parents) if f.exists())).free


def _offer(profile: Profile, machine: Machine, paths: Paths, disk: Disk, seconds: float | None) -> Offer:
    sources: list[tuple[NeedKind, ModelSource | None]] = [
        ("model", profile.model),
        ("draft", profile.draft),
        ("mtp", profile.mtp),
    ]
    needs = [_engine(profile, paths), *(_file(kind, source, disk) for kind, source in sources if source)]
    lost = next((s for _, s in sources if s and s.kind == "file" and disk.locate(s) is None), None)
    obstacle, ctx, quantisation = "", profile.ctx, _quantisation(profile.model)
    if lost is not None:
        obstacle = f"{lost.path} is not there. Put it there, or correct the profile."
    elif profile.gpu and not machine.gpus and not needs[0].here:
        obstacle = f"It needs a GPU, and none was found: {machine.no_gpu}."
    else:
        try:
            target, draft = _facts(profile.model, disk), _facts(profile.draft, disk)
            if target is not None and (machine.gpus or not profile.gpu):
                quantisation = target.quantisation or quantisation
                wish = Wish(profile.ctx, profile.min_ctx, profile.kv, profile.gpu, profile.threads)
                ctx = make_plan(target, draft, machine, wish).ctx
        except RuntimeFailure as failure:
            obstacle = str(failure)
    drafting = NAMES[rungs(profile)[0]]
    title, note = profile.title, profile.note
    return Offer(profile.name, title, note, quantisation, ctx, drafting, tuple(needs), obstacle, seconds)


def _engine(profile: Profile, paths: Paths) -> Need:
    if engine := engine_here(paths.engines, profile.gpu):
        return Need("engine", f"{engine.version} ({engine.backend})", here=True)
    if profile.gpu:
        return Need("engine", "BeeLlama: a release archive that fits, else built", here=False, effort=BUILD_GPU)
    return Need("engine", "llama.cpp, built from source", here=False, effort=BUILD_CPU)


def _file(kind: NeedKind, source: ModelSource, disk: Disk) -> Need:
    path = disk.locate(source)
    if path is not None:
        count = path.stat().st_size
        return Need(kind, path.name, here=True, bytes=count, come=count)
    if source.kind == "smollm2-wheel":
        return Need(kind, SMOKE_FILE, here=False, bytes=SMOKE_BYTES)
    if source.kind == "file":
        return Need(kind, source.path.name if source.path else "", here=False)
    return Need(kind, source.file.rpartition("/")[2], here=False, bytes=source.bytes or 0, come=disk.come(source))


def _facts(source: ModelSource | None, disk: Disk) -> GgufFacts | None:
    """Raises RuntimeFailure for a file that is no model."""
    path = disk.locate(source) if source else None
    return read_gguf(path) if path else KNOWN.get(source.file) if source else None


def _quantisation(source: ModelSource) -> str:
    name = SMOKE_FILE if source.kind == "smollm2-wheel" else source.file or (source.path.name if source.path else "")
    found = _QUANTISATION.search(name.removesuffix(".gguf"))
    return found[1] if found else ""
