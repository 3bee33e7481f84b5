"""What a machine has and what could run on it, as data: the setup screen, `setup` and /model draw the same facts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

NeedKind: TypeAlias = Literal["engine", "model", "draft", "mtp"]


@dataclass(frozen=True, slots=True)
class Choice:
    """What to run: a profile by its name, or the server at an address. Exactly one is given."""

    profile: str = ""
    server: str = ""


@dataclass(frozen=True, slots=True)
class Need:
    """One thing that a profile cannot do without, or drafts with. name: of the engine, or of the file. bytes: of the
    whole; come: of them that are here already; 0: unknown. effort: how long it takes to get ("5 to 20 min"), where that
    does not follow from its bytes. remedy: what the user has to do first, "" for nothing."""

    kind: NeedKind
    name: str
    here: bool
    bytes: int = 0
    come: int = 0
    effort: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Offer:
    """One profile on this machine. quantisation: of the model, "" where its name does not tell; ctx: tokens, as planned
    for this machine where its file is known. drafting: in words. obstacle: why it cannot run here, "" where it can.
    load_s: seconds of its last start; None: never started."""

    profile: str
    title: str
    note: str
    quantisation: str
    ctx: int
    drafting: str
    needs: tuple[Need, ...]
    obstacle: str = ""
    load_s: float | None = None

    @property
    def ready(self) -> bool:
        """Nothing has to be built or fetched."""
        return all(n.here for n in self.needs)

    @property
    def to_fetch(self) -> int:
        """Bytes of models."""
        return sum(max(0, n.bytes - n.come) for n in self.needs if not n.here)


@dataclass(frozen=True, slots=True)
class Survey:
    """found: what this machine has, as (name, words) rows. proposed: the profile that the user has asked for or that
    suits the machine; why: the reason, as a sentence. free: bytes of the disk for models. `offers` holds every profile,
    the proposed one first and those that cannot run here last."""

    found: tuple[tuple[str, str], ...]
    offers: tuple[Offer, ...]
    proposed: str
    why: str
    free: int = 0

    def offer(self, profile: str) -> Offer | None:
        return next((o for o in self.offers if o.profile == profile), None)


@dataclass(frozen=True, slots=True)
class Ready:
    """An engine that serves, as its first answers showed it. tok_s, acceptance (0..1): None where the server tells
    nothing. load_s: seconds from the start of the engine until it had answered; None for one that ran already. note:
    what differs from what was asked for."""

    title: str
    drafting: str
    ctx: int | None
    tok_s: float | None = None
    acceptance: float | None = None
    load_s: float | None = None
    note: str = ""

    def __str__(self) -> str:
        facts = [self.drafting] if self.drafting else []
        facts += [f"context {self.ctx:,} tokens"] if self.ctx else []
        facts += [f"{self.tok_s:.0f} tok/s in its first answer"] if self.tok_s else []
        facts += [f"{self.acceptance:.0%} of its drafts accepted"] if self.acceptance is not None else []
        return f"{self.title} is ready: {', '.join(facts)}." if facts else f"{self.title} is ready."
