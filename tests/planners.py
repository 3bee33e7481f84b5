"""Planners for tests that are not about planning."""

from __future__ import annotations

from dataclasses import dataclass

from agent.config.profile import Profile, Rung
from agent.runtime.plan import Plan


@dataclass(frozen=True, slots=True)
class Wished:
    """What the profile wishes for, without a look at the machine."""

    profile: Profile

    def first(self, rung: Rung) -> Plan:
        k, v = self.profile.kv[0]
        gpu = self.profile.gpu
        return Plan(self.profile.ctx, k, v, gpu=gpu, mlock=gpu, threads=self.profile.threads)

    def smaller(self, rung: Rung, plan: Plan) -> Plan | None:
        return None

    def worked(self, rung: Rung, plan: Plan) -> None:
        pass
