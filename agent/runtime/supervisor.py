"""Owns the engine of one profile together with the other windows of this user: finds it running or starts it, checks
it, heals it, and lets go of it.

One runner at a time changes the state; callers share it. Nobody looks at the state first: they await `ensure_ready`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import cast

import httpx2

from agent.config.profile import NAMES, Profile, Rung, rungs
from agent.errors import AgentError, RuntimeFailure
from agent.events import Endpoint, ServerState
from agent.progress import Phase, Report
from agent.runtime.canary import Verdict, sing
from agent.runtime.command import Files, build_command, engine_environment
from agent.runtime.dialect import Dialect
from agent.runtime.faults import Fault, FaultKind
from agent.runtime.growth import SLACK, lean, limit, outgrown
from agent.runtime.launch import LAST_WORDS, LaunchFailed, dying, end_keeper, ending_of, failed, launch, running
from agent.runtime.lock import FileLock
from agent.runtime.logbook import last_lines
from agent.runtime.plan import Plan, Planner
from agent.runtime.planner import table
from agent.runtime.prefix import misfit
from agent.runtime.probe import NotAModelServer, answers, inspect, is_ours, open_client
from agent.runtime.record import Home, Record, write_record
from agent.runtime.template import LaunchTemplate

CRASHES, CRASH_WINDOW = 2, 600.0  # more crashes than this within so many seconds: it would crash for ever
PATIENCE = 15.0  # seconds; the main loop answers between two batches of a prompt, which take up to a few seconds
DRAFTERS = ("dflash", "mtp")  # what drafts in every reply, not only where text repeats itself


@dataclass(frozen=True, slots=True)
class Provision:
    """All that the starts of one profile need beside it. rungs: the ways of drafting that the engine can run, best
    first; refused: those whose files cannot serve, and why. template: in place of the model's own."""

    files: Files
    dialect: Dialect
    rungs: tuple[Rung, ...]
    planner: Planner
    refused: Mapping[Rung, str] = field(default_factory=dict[Rung, str])
    template: LaunchTemplate | None = None


class Supervisor:
    """`provide` finds (or builds, or fetches) what the profile needs and reports its phases. `keep_alive`: minutes that
    the engine stays after its last window; negative: until it is stopped. `patience`: seconds after which an engine
    whose main loop does not answer counts as wedged. `slack`: bytes of host memory that it may take beyond its plan."""

    def __init__(
        self,
        profile: Profile,
        provide: Callable[[Report], Awaitable[Provision]],
        env: Mapping[str, str],
        home: Home,
        publish: Callable[[ServerState], None],
        keep_alive: float = 0.0,
        patience: float = PATIENCE,
        slack: int = SLACK,
    ) -> None:
        self._profile = profile
        self._provide = provide
        self._env = env
        self._home = home
        self._publish = publish
        self._keep_alive = keep_alive
        self._patience = patience
        self._slack = slack
        self._state = ServerState("stopped")
        self._record: Record | None = None
        self._lease = FileLock(home.lease, shared=True)
        self._starting: asyncio.Task[Endpoint] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._suspicion = ""
        self._crashes: deque[float] = deque()
        self._distrusted: dict[Rung, str] = {}  # ways of drafting that have failed in this window, and why
        self._lean = False  # an engine has outgrown its plan: the next one keeps the least that grows
        self._untouched = ""  # why the model's own chat template is used though another was derived
        self._smaller = 0  # steps below the first plan: so often has memory run out in use
        self._pidfd: int | None = None
        self._mourning: asyncio.Task[None] | None = None

    @property
    def state(self) -> ServerState:
        return self._state

    @property
    def record(self) -> Record | None:
        return self._record

    @property
    def pid(self) -> int | None:
        """The engine's."""
        return self._record.pid if self._record else None

    def suspect(self, why: str) -> None:
        """Something was wrong with a reply: before the next one the engine is looked at."""
        self._suspicion = why

    async def ensure_ready(self) -> Endpoint:
        """All callers share one start; a caller that is cancelled leaves it running. Raises RuntimeFailure."""
        while self._stopping is not None and not self._stopping.done():
            await asyncio.wait([self._stopping])
        endpoint, record = self._state.endpoint, self._record
        fine = record is not None and record.alive and not self._suspicion and not outgrown(record)
        if endpoint is not None and fine:
            return endpoint
        if self._starting is None or self._starting.done():
            self._starting = asyncio.get_running_loop().create_task(self._start(), name="engine-start")
            # a failure is published; nobody may be left to await it
            self._starting.add_done_callback(lambda task: None if task.cancelled() else task.exception())
        task = self._starting
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():  # stopped by `stop`, not by our own caller
                raise RuntimeFailure("The engine was stopped while it started.") from None
            raise

    async def stop(self) -> None:
        """Lets go of the engine; the last window ends it, unless it is to be kept. A start in progress is torn down
        first. All callers share one stop; it forgets past crashes."""
        if self._stopping is None or self._stopping.done():
            self._stopping = asyncio.get_running_loop().create_task(self._stop(), name="engine-stop")
        await asyncio.shield(self._stopping)

    async def _stop(self) -> None:
        if self._starting is not None and not self._starting.done():
            self._starting.cancel()
            await asyncio.wait([self._starting])
        if self._state.kind in ("ready", "starting"):
            self._become(ServerState("stopping"))
        await self._let_go()
        self._crashes.clear()
        self._distrusted.clear()
        self._suspicion = ""
        self._become(ServerState("stopped"))

    async def _let_go(self) -> None:
        self._unwatch()
        record, self._record = self._record, None
        self._lease.release()
        if record is None or record.keep_alive != 0 or self._home.keep.exists() or not record.kept:
            return
        with FileLock(self._home.lease) as last:
            if last.take():  # nobody else holds it, and nobody can take it before the keeper has gone
                await end_keeper(self._home, record.keeper)

    # ---- one start
    async def _start(self) -> Endpoint:
        starting = FileLock(self._home.start_lock)
        try:
            if not starting.take():
                self._report(Phase("look", "another window is starting the engine"))
                await starting.wait()
            endpoint, note = await self._find_or_launch()
        except (AgentError, OSError) as error:
            await self._let_go()
            words = error.last_words if isinstance(error, RuntimeFailure) else ()
            self._become(ServerState("failed", why=str(error), last_words=words))
            if isinstance(error, AgentError):
                raise
            raise RuntimeFailure(f"Cannot start the engine: {error}.") from error
        except asyncio.CancelledError:
            await self._let_go()
            raise
        finally:
            starting.release()
        self._become(ServerState("ready", endpoint=endpoint, note=note))
        self._watch()
        return endpoint

    async def _find_or_launch(self) -> tuple[Endpoint, str]:
        suspicion, self._suspicion = self._suspicion, ""
        self._unwatch()
        mine, self._record = self._record, None
        await self._take_lease()
        if (record := running(self._home)) is not None and not (mine and await dying(record.port, mine)):
            endpoint = await self._adopt(record, suspicion)
            if endpoint is not None:
                return endpoint, ""
            self._report(Phase("load", "restarting the engine"))
        if mine is not None and not mine.alive:
            await self._count_crash(mine)
        if record is not None:
            await end_keeper(self._home, record.keeper)
            await self._take_lease()
        return await self._launch(await self._provide(self._report))

    async def _take_lease(self) -> None:
        """A keeper that is about to end its engine holds the lease to the last."""
        if not self._lease.take():
            self._report(Phase("look", "waiting for the last engine to end"))
            await self._lease.wait()

    async def _adopt(self, record: Record, suspicion: str) -> Endpoint | None:
        """The endpoint of an engine that runs already; None when it has to be started anew."""
        self._report(Phase("look", "looking at the running engine"))
        url = f"http://127.0.0.1:{record.port}"
        try:
            async with open_client(url, record.key, local=True) as client:
                if not await answers(client, self._patience) or not await is_ours(client, record.model):
                    return None
                if not record.rung:  # whoever started it has gone before it was checked
                    return None
                if outgrown(record):
                    self._lean = True
                    return None
                if suspicion and (fault := (await sing(client, drafts=record.rung in DRAFTERS)).fault):
                    if record.rung in NAMES:
                        self._distrusted[cast(Rung, record.rung)] = f"{fault}."
                    return None
                endpoint = await self._inspect(client, record, record.rung)
        except (httpx2.HTTPError, NotAModelServer):
            return None
        self._record = record
        return endpoint

    async def _count_crash(self, record: Record) -> None:
        if not (await ending_of(self._home)).by_itself:  # another window stopped it
            return
        self._crashes.append(time.monotonic())
        fault = (await failed(self._home, "in use")).fault
        if fault.kind == "memory" and (not fault.killed or len(self._crashes) > 1):  # once may be anybody's doing
            self._smaller += 1
        while time.monotonic() - self._crashes[0] > CRASH_WINDOW:
            self._crashes.popleft()
        if len(self._crashes) > CRASHES:
            raise RuntimeFailure(
                f"The engine has ended {len(self._crashes)} times in a few minutes; its log is {self._home.log}. "
                "Leave and start again when the cause is gone.",
                last_lines(self._home.log, LAST_WORDS),
            )
        if len(self._crashes) == CRASHES and record.rung in ("dflash", "mtp", "ngram"):
            self._distrusted[record.rung] = "the engine ended twice while it ran so."

    async def _launch(self, provision: Provision) -> tuple[Endpoint, str]:
        """Goes down the rungs until one is found sane, and on each to smaller plans while memory is short."""
        for rung, why in provision.refused.items():
            self._distrusted.setdefault(rung, why)
        left: list[Rung] = [r for r in provision.rungs if r not in self._distrusted] or [provision.rungs[-1]]
        for rung in left:
            try:
                endpoint = await self._rung(provision, rung)
            except LaunchFailed as failure:
                if rung == left[-1] or failure.fault.kind not in ("draft", "memory"):
                    raise
                self._distrusted[rung] = str(failure)
                continue
            return endpoint, self._note(provision.rungs[0], rung, endpoint)
        raise AssertionError("unreachable")

    def _note(self, wanted: Rung, rung: Rung, endpoint: Endpoint) -> str:
        """What differs from what the profile asks for."""
        notes: list[str] = []
        if self._lean:
            notes.append("The engine had taken far more memory than planned; it was started anew with smaller caches.")
        if why := self._distrusted.get(wanted, ""):
            notes.append(f"Running with {NAMES[rung]} instead of {NAMES[wanted]}: {why}")
        if self._untouched:
            notes.append(f"Replies are read twice, by the model's own chat template: a mended one {self._untouched}")
        if endpoint.n_ctx and endpoint.n_ctx < self._profile.ctx:
            notes.append(
                f"The context is {endpoint.n_ctx} tokens instead of {self._profile.ctx}: "
                "the model or the memory allows no more (dflash-agent doctor shows the plan)."
            )
        return "\n".join(notes)

    async def _rung(self, provision: Provision, rung: Rung) -> Endpoint:
        """Raises LaunchFailed: kind draft when what drafts is at fault."""
        plan = provision.planner.first(rung)
        plan = lean(plan) if self._lean else plan
        for _ in range(self._smaller):
            plan = provision.planner.smaller(rung, plan) or plan
        while True:
            try:
                endpoint = await self._attempt(provision, rung, plan)
            except LaunchFailed as failure:
                if failure.fault.kind == "template" and provision.template is not None and not self._untouched:
                    self._untouched = str(failure)
                    provision.template.refuse(self._untouched)
                    continue
                smaller = provision.planner.smaller(rung, plan) if failure.fault.kind == "memory" else None
                if smaller is None:
                    raise
                plan = smaller
                self._report(Phase("load", f"not enough memory; trying a context of {plan.ctx}"))
                continue
            provision.planner.worked(rung, plan)
            return endpoint

    async def _attempt(self, provision: Provision, rung: Rung, plan: Plan) -> Endpoint:
        template = None if self._untouched else provision.template
        files, dialect = replace(provision.files, template=template and template.file), provision.dialect
        record = await launch(
            self._home,
            lambda port: build_command(self._profile, dialect, plan, files, rung, port),
            lambda key: engine_environment(self._env, key, self._home.folder),
            model=files.model,
            profile=self._profile.name,
            keep_alive=self._keep_alive,
            report=self._report,
        )
        self._record = record
        try:
            endpoint, verdict = await self._check(record, rung, template)
        except BaseException:
            self._record = None
            await end_keeper(self._home, record.keeper)
            raise
        found = {"tok_s": verdict.tok_s, "acceptance": verdict.acceptance, "plan": table(plan)}
        known = {"engine": dialect.version, "dialect": dialect.name, "ctx": plan.ctx}
        seconds = time.time() - record.launched
        grown = limit(record.pid, plan, self._slack)
        self._record = replace(record, rung=rung, memory_limit=grown, load_s=seconds, **known, **found)
        write_record(self._home.record, self._record)
        return replace(endpoint, plan=self._record.plan)

    async def _check(self, record: Record, rung: Rung, template: LaunchTemplate | None) -> tuple[Endpoint, Verdict]:
        """Raises LaunchFailed."""
        drafts = rung in DRAFTERS
        self._report(Phase("check", "checking its answers" if drafts else "checking"))
        try:
            async with open_client(f"http://127.0.0.1:{record.port}", record.key, local=True) as client:
                endpoint = await self._inspect(client, record, rung)
                if drafts and endpoint.speculative is False:
                    raise self._unfit("draft", "it serves without drafting")
                if template and (why := await misfit(client, endpoint.rewrites, template.chat_format)):
                    raise LaunchFailed(Fault("template", f"was tried, and {why}."), ())
                verdict = await sing(client, drafts=drafts)
        except (httpx2.HTTPError, NotAModelServer) as error:
            body = error.response.text if isinstance(error, httpx2.HTTPStatusError) else ""
            ended = isinstance(error, httpx2.TransportError) and await dying(record.port, record)
            found = await failed(self._home, "at its first answer", body, ended=ended)
            kind = "draft" if drafts and found.fault.kind != "memory" else found.fault.kind
            why = str(found) if ended else f"The engine does not answer as it should: {body or error}."
            raise LaunchFailed(Fault(kind, why), found.last_words) from error
        if verdict.fault:
            raise self._unfit("draft" if rung != "plain" else "", verdict.fault)
        return endpoint, verdict

    def _unfit(self, kind: FaultKind, why: str) -> LaunchFailed:
        sentence = f"The engine was tried and is not fit: {why}. Its log is {self._home.log}."
        return LaunchFailed(Fault(kind, sentence), last_lines(self._home.log, LAST_WORDS))

    async def _inspect(self, client: httpx2.AsyncClient, record: Record, rung: str) -> Endpoint:
        url = f"http://127.0.0.1:{record.port}"
        wanted = rungs(self._profile)[0]
        known = Endpoint(url, record.key, self._profile.title, profile=self._profile.name, rung=rung, wanted=wanted)
        return await inspect(client, replace(known, plan=record.plan))

    # ---- watching
    def _watch(self) -> None:
        """Says at once that a serving engine has died; the next request heals it."""
        assert self._record is not None
        with contextlib.suppress(OSError):
            self._pidfd = os.pidfd_open(self._record.pid)
            asyncio.get_running_loop().add_reader(self._pidfd, self._died)

    def _unwatch(self) -> None:
        if self._pidfd is not None:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None

    def _died(self) -> None:
        self._unwatch()
        self._mourning = asyncio.get_running_loop().create_task(self._mourn(), name="engine-end")

    async def _mourn(self) -> None:
        ending = await ending_of(self._home)
        if self._state.kind != "ready":
            return
        if ending.by_itself:
            fault = await failed(self._home, "by itself")
            self._become(ServerState("failed", why=str(fault), last_words=fault.last_words))
        else:
            self._become(ServerState("stopped"))

    def _report(self, phase: Phase) -> None:
        self._become(ServerState("starting", phase))

    def _become(self, state: ServerState) -> None:
        state = replace(state, model=self._profile.title)
        if state != self._state:
            self._state = state
            with contextlib.suppress(RuntimeError):
                self._publish(state)
