"""What has to be done until a model answers, and how far it has come: folded from the states of a server that starts.
Knows no widget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from agent.events import ServerState
from agent.progress import Phase, Stage, size, size_of, span
from agent.survey import Need, Offer

StepState: TypeAlias = Literal["waiting", "running", "done", "failed"]
TITLES = {"engine": "Engine", "model": "Model", "draft": "Draft", "mtp": "MTP draft"}


@dataclass(slots=True)
class Step:
    """aside: how much there is to do, or how long it took. begun: monotonic seconds."""

    title: str
    name: str
    aside: str
    state: StepState = "waiting"
    phase: Phase | None = None
    begun: float = 0.0
    seconds: float = 0.0


class Steps:
    """One for each need of an offer, then the start itself; for a server that runs already, only that."""

    def __init__(self, offer: Offer | None) -> None:
        needs = offer.needs if offer else ()
        self.rows = [_step(need) for need in needs]
        about = "load it, check its answers, measure its speed" if offer else "see whether it answers"
        self.rows.append(Step("Start", about, ""))
        self._files = {need.name: step for need, step in zip(needs, self.rows, strict=False)}
        self._engine = next((step for n, step in zip(needs, self.rows, strict=False) if n.kind == "engine"), None)

    def apply(self, state: ServerState, now: float) -> None:
        if state.kind == "ready":
            self._pass(len(self.rows), now)
        elif state.kind == "failed":
            for step in self.rows:
                if step.state == "running":
                    step.state = "failed"
        elif state.kind == "starting" and state.phase is not None and (step := self._of(state.phase)) is not None:
            self._pass(self.rows.index(step), now)
            if step.state != "running":
                step.state, step.begun = "running", now
            step.phase = state.phase

    def stopped(self) -> None:
        """What was going on waits again."""
        for step in self.rows:
            if step.state in ("running", "failed"):
                step.state, step.phase = "waiting", None

    def _pass(self, index: int, now: float) -> None:
        """The steps before are done; a start that begins anew has those from there on before it again."""
        for step in self.rows[:index]:
            if step.state != "done":
                step.seconds = now - step.begun if step.state == "running" else 0.0
                step.state, step.aside = "done", span(step.seconds) if step.seconds >= 1 else ""
        for step in self.rows[index + 1 :]:
            if step.state == "running":
                step.state = "waiting"

    def _of(self, phase: Phase) -> Step | None:
        stage: Stage = phase.stage
        if stage == "engine":
            return self._engine
        if stage == "models":
            return self._files.get(phase.file.rpartition("/")[2])
        return self.rows[-1] if stage in ("load", "check") or len(self.rows) == 1 else None


def _step(need: Need) -> Step:
    aside = need.effort or (size(need.bytes) if need.bytes else "")
    if need.here:
        aside = "here" if need.kind == "engine" or not need.bytes else f"here, {size(need.bytes)}"
    elif need.come:
        aside = f"{size_of(need.come, need.bytes)} here" if need.bytes else f"{size(need.come)} here"
    return Step(TITLES[need.kind], need.name, aside, "done" if need.here else "waiting")
