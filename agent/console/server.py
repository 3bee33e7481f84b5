"""`dflash-agent server`: the engines of this user, seen and steered from outside of any conversation."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agent.config.paths import Paths
from agent.config.profile import NAMES, Profile
from agent.events import ServerState
from agent.progress import Lines
from agent.runtime.launch import end_keeper, running
from agent.runtime.lock import holders
from agent.runtime.logbook import last_lines
from agent.runtime.metrics import Totals, scrape
from agent.runtime.probe import answers, open_client
from agent.runtime.record import Home, Record
from agent.runtime.supervisor import Supervisor
from agent.speech import harmless

LINES = 100  # of the log
FOLLOW = 0.25  # seconds between looks at a log that is followed
PATIENCE = 2.0  # seconds for a busy engine
OK, NO_ENGINE = 0, 3
MakeSupervisor = Callable[[Profile, Home, Callable[[ServerState], None]], Supervisor]


@dataclass(frozen=True, slots=True)
class Seen:
    """One running engine. answers: whether its main loop turns. totals: tokens since it started."""

    home: Home
    record: Record
    answers: bool
    totals: Totals

    def json(self) -> dict[str, Any]:
        data = {k: v for k, v in asdict(self.record).items() if k not in ("key", "keeper_start", "pid_start", "plan")}
        data |= {"url": f"http://127.0.0.1:{self.record.port}", "answers": self.answers, "log": str(self.home.log)}
        data |= {"windows": holders(self.home.lease)}
        data |= {"uptime_s": round(time.time() - self.record.launched), "plan": self.record.plan.splitlines()}
        totals = asdict(self.totals)
        return data | {"totals": {k: totals[k] for k in ("drafted", "accepted", "generated", "read")}}


def homes(paths: Paths, profile: str | None = None) -> list[Home]:
    """All folders of engines, of one profile if it is named; the last used first."""
    folders = [f for f in (paths.state / "engine").glob("*") if f.is_dir()]
    if profile is not None:
        folders = [f for f in folders if f.name.rpartition("-")[0] == profile]
    return [Home(f) for f in sorted(folders, key=lambda f: f.stat().st_mtime, reverse=True)]


async def start(profile: Profile, paths: Paths, make: MakeSupervisor) -> int:
    """The engine then stays until it is stopped."""
    home, lines = Home.of(paths.state, profile), Lines()

    def tell(state: ServerState) -> None:
        words = lines.line(state.phase) if state.phase else state.note
        if words:
            print(words, file=sys.stderr, flush=True)

    supervisor = make(profile, home, tell)
    try:
        endpoint = await supervisor.ensure_ready()
        home.keep.touch()
    finally:
        await supervisor.stop()
    drafting = NAMES.get(endpoint.rung, endpoint.rung)
    print(f"{profile.title} runs at {endpoint.base_url} with {drafting} and a context of {endpoint.n_ctx} tokens.")
    return OK


async def stop(paths: Paths, profile: str | None) -> int:
    """Ends what is provably ours, and nothing else."""
    found = [(h, r) for h in homes(paths, profile) if (r := running(h)) is not None]
    for home, record in found:
        await end_keeper(home, record.keeper)
        print(f"Stopped {record.profile} (pid {record.pid}).")
    if not found:
        print("No engine runs.")
    return OK


async def status(paths: Paths, *, as_json: bool) -> int:
    seen = [await _look(h, r) for h in homes(paths) if (r := running(h)) is not None]
    if as_json:
        print(json.dumps({"engines": [s.json() for s in seen]}, indent=1))
    else:
        print("\n\n".join(_text(s) for s in seen) or "No engine runs. Start one: dflash-agent server start")
    return OK if seen else NO_ENGINE


async def describe(home: Home) -> str:
    """The engine of this folder, if one runs."""
    record = running(home)
    return _text(await _look(home, record)) if record else "No engine runs; the next message starts it."


async def _look(home: Home, record: Record) -> Seen:
    async with open_client(f"http://127.0.0.1:{record.port}", record.key, local=True) as client:
        turns = await answers(client, PATIENCE)
        return Seen(home, record, turns, await scrape(client) if turns else Totals())


def _text(seen: Seen) -> str:
    r, t = seen.record, seen.totals
    state = "answers" if seen.answers else "does not answer (busy with a long prompt, or stuck)"
    rate = f"{r.tok_s:.0f} tok/s" if r.tok_s else "n/a"
    share = f"{t.accepted / t.drafted:.0%}" if t.drafted and t.accepted is not None else "n/a"
    rows = [
        ("profile", r.profile),
        ("model", Path(r.model).name),
        ("engine", f"{r.engine or 'unknown version'}, speaks {r.dialect or 'an unknown dialect'}"),
        ("process", f"pid {r.pid}, http://127.0.0.1:{r.port}, {state}"),
        ("drafting", NAMES.get(r.rung, "not checked yet")),
        ("windows", "n/a" if (windows := holders(seen.home.lease)) is None else str(windows)),
        ("up", f"{(time.time() - r.launched) / 60:.0f} min"),
        ("first answer", f"{rate}, acceptance {f'{r.acceptance:.0%}' if r.acceptance is not None else 'n/a'}"),
        ("since then", f"{t.generated or 0:.0f} tokens written, {t.read or 0:.0f} read, acceptance {share}"),
        ("log", str(seen.home.log)),
    ]
    return "\n".join([*(f"{name:12}  {value}" for name, value in rows), *r.plan.splitlines()])


async def logs(paths: Paths, profile: str | None, *, follow: bool) -> int:
    home = next((h for h in homes(paths, profile) if h.log.exists()), None)
    if home is None:
        print("No engine has run yet, so there is no log.", file=sys.stderr)
        return NO_ENGINE
    _print(last_lines(home.log, LINES))
    at = home.log.stat().st_size
    while follow:
        await asyncio.sleep(FOLLOW)
        size = home.log.stat().st_size if home.log.exists() else 0
        if size < at:  # begun anew
            at = 0
        if size > at:
            with home.log.open("rb") as file:
                file.seek(at)
                text = file.read(size - at).decode("utf-8", "replace")
            at = size
            _print(text.splitlines())
    return OK


def _print(lines: Sequence[str]) -> None:
    for line in lines:
        print(harmless(line))
    sys.stdout.flush()
