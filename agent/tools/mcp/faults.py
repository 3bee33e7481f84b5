"""Why a server cannot be used, in words. The library's exceptions become these once, in `link`."""

from __future__ import annotations

from typing import Literal, TypeAlias

FaultKind: TypeAlias = Literal["config", "start", "lost", "session", "login", "timeout", "refused", "protocol"]


class Fault(Exception):
    """`kind`: config (the entry), start (never came up), lost (the connection broke), session (an HTTP server has
    forgotten us: nothing was done), login (a token is needed), timeout, refused (its own error), protocol (nonsense).
    `status`: of HTTP."""

    def __init__(self, kind: FaultKind, why: str, status: int | None = None) -> None:
        super().__init__(why)
        self.kind: FaultKind = kind
        self.why = why
        self.status = status
