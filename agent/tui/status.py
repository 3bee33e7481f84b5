"""The status line: a pure function of what is known and a width. What is unknown is not guessed."""

from __future__ import annotations

from dataclasses import dataclass, field

from rich.text import Text

from agent.events import (
    AssistantAdded,
    CallDelta,
    Endpoint,
    Event,
    PrefillProgress,
    ServerChanged,
    ServerState,
    SettingsChanged,
    StepStarted,
    TextDelta,
    ThinkingDelta,
    TurnEnded,
    TurnStarted,
)
from agent.messages import Timings, Usage
from agent.tui.theme import ACCENT, BAD, DIM, TEXT, WARN

RATE_WINDOW = 2.0  # seconds of the moving rate while a reply streams
CHARS_PER_TOKEN = 3.6  # for the moving rate alone; the final figure is the server's own
BLOCKS = "▏▎▍▌▋▊▉█"
LEVELS = "▁▂▃▄▅▆▇█"


@dataclass(slots=True)
class Status:
    """Folded from events; `now` is monotonic seconds. `model`: shown until the server says what it runs."""

    model: str
    mode: str
    branch: str = ""
    server: ServerState = ServerState("stopped")
    server_since: float = 0.0
    timings: Timings = Timings()
    usage: Usage = Usage()
    replies: int = 0
    running: bool = False
    waiting_since: float | None = None
    prefill: PrefillProgress | None = None
    prefill_since: float = 0.0
    pieces: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])

    def apply(self, event: Event, now: float) -> None:
        match event:
            case TurnStarted():
                self.running = True
            case StepStarted():
                self.waiting_since, self.prefill = now, None
                self.pieces.clear()
            case PrefillProgress():
                if self.prefill is None:
                    self.prefill_since = now
                self.prefill = event
            case TextDelta(text=text) | ThinkingDelta(text=text) | CallDelta(text=text):
                self.waiting_since = self.prefill = None
                self.pieces.append((now, len(text)))
            case AssistantAdded(message=message):
                self.timings, self.usage = message.timings, message.usage
                self.replies += 1
                self.waiting_since = self.prefill = None
                self.pieces.clear()
            case TurnEnded():
                self.running = False
                self.waiting_since = self.prefill = None
                self.pieces.clear()
            case ServerChanged(state=state):
                if state.kind != self.server.kind:
                    self.server_since = now
                self.server = state
            case SettingsChanged(key="mode", value=value):
                self.mode = value
            case _:
                pass

    @property
    def busy(self) -> bool:
        """Does the line change with time alone?"""
        return self.running or self.server.kind in ("starting", "stopping")

    def line(self, width: int, now: float) -> Text:
        parts = self._parts(now)
        while len(parts) > 1 and sum(p.cell_len for p in parts) + 2 * (len(parts) - 1) > width:
            parts.pop()
        line = Text("  ").join(parts)
        line.truncate(width, overflow="ellipsis")
        return line

    # ---- parts, most important first
    def _parts(self, now: float) -> list[Text]:
        endpoint = self.server.endpoint
        label = endpoint.model if endpoint and endpoint.model else self.model
        parts = [Text(label.rsplit("/", 1)[-1], f"bold {TEXT}") + Text(_speculation(endpoint), ACCENT)]
        if self.server.kind == "starting":
            parts.append(Text(f"{self.server.phase or 'starting'}, {now - self.server_since:.0f} s", WARN))
        elif self.server.kind == "failed":
            parts.append(Text("engine not available", BAD))
        if activity := self._activity(now):
            parts.append(activity)
        elif self.replies:
            parts += self._figures(endpoint)
        parts.append(Text(self.mode, WARN if self.mode == "auto" else DIM))
        if self.branch:
            parts.append(Text(self.branch, DIM))
        return parts

    def _activity(self, now: float) -> Text | None:
        if self.prefill is not None and self.prefill.processed < self.prefill.total:
            return self._reading(self.prefill)
        if self.waiting_since is not None:
            return Text(f"waiting {now - self.waiting_since:.0f} s", DIM)
        if self.pieces:
            self.pieces = [p for p in self.pieces if now - p[0] <= RATE_WINDOW]
            if len(self.pieces) > 1:
                span = max(now - self.pieces[0][0], 0.2)
                rate = sum(n for _, n in self.pieces[1:]) / CHARS_PER_TOKEN / span
                return Text(f"~{rate:.0f} tok/s", TEXT)
        return None

    def _reading(self, progress: PrefillProgress) -> Text:
        fresh = max(1, progress.total - progress.cache)
        done = max(0, progress.processed - progress.cache)
        left = ""
        if done and progress.time_ms:
            left = f" {(fresh - done) * progress.time_ms / done / 1000:.0f} s left"
        text = f"reading {_tokens(progress.processed)} of {_tokens(progress.total)} tokens "
        return Text(text, TEXT) + Text(_bar(progress.processed / progress.total, 6), ACCENT) + Text(left, DIM)

    def _figures(self, endpoint: Endpoint | None) -> list[Text]:
        t, parts = self.timings, list[Text]()
        if t.predicted_per_second is not None:
            parts.append(Text(f"{t.predicted_per_second:.0f} tok/s", TEXT))
        if t.acceptance is not None:
            steps = f" ({t.tokens_per_step:.1f}/step)" if t.tokens_per_step else ""
            parts.append(Text(f"acc {t.acceptance:.0%}{steps}", TEXT))
        elif endpoint and endpoint.speculative is False and endpoint.profile.endswith("-dflash"):
            parts.append(Text("acc OFF", f"bold {WARN}"))
        elif endpoint and endpoint.speculative:
            parts.append(Text("acc n/a", DIM))
        if t.cache_share is not None:
            parts.append(Text(f"cache {t.cache_share:.0%}", DIM))
        if (used := self._context()) is not None:
            parts.append(_context_text(used, endpoint.n_ctx if endpoint else None))
        return parts

    def _context(self) -> int | None:
        if self.usage.prompt_tokens is None:
            return None
        return self.usage.prompt_tokens + (self.usage.generated_tokens or 0)


def _speculation(endpoint: Endpoint | None) -> str:
    if endpoint is None or not endpoint.speculative:
        return ""
    return (
        " ▸DFlash" if endpoint.profile.endswith("-dflash") else " ▸ngram" if endpoint.profile == "smoke" else " ▸spec"
    )


def _context_text(used: int, n_ctx: int | None) -> Text:
    if not n_ctx:
        return Text(f"ctx {_tokens(used)}", DIM)
    share = min(1.0, used / n_ctx)
    level = LEVELS[min(len(LEVELS) - 1, int(share * len(LEVELS)))]
    return Text(f"ctx {_tokens(used)}/{_tokens(n_ctx)} {level}", WARN if share > 0.8 else DIM)


def _tokens(count: int) -> str:
    return str(count) if count < 1000 else f"{count / 1000:.1f}k" if count < 100_000 else f"{count / 1000:.0f}k"


def _bar(share: float, cells: int) -> str:
    eighths = int(max(0.0, min(1.0, share)) * cells * 8)
    full, part = divmod(eighths, 8)
    return "█" * full + (BLOCKS[part - 1] if part else "")
