"""The one screen: transcript, dock, composer, status line. Passes what the user does to the session and what the
session says to the widgets. Kept thin: what things look like is in cells/, what they mean in picture and gauge."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, ClassVar

from textual import on
from textual.app import App, ComposeResult, SuspendNotSupported
from textual.binding import Binding, BindingType
from textual.events import Paste
from textual.screen import Screen
from textual.strip import Strip
from textual.timer import Timer
from textual.widgets import Static

from agent.commands.base import Answer, Ask, Command, Diff, Level, Open, Registry, Said
from agent.core.permissions import MODES
from agent.core.session import Session
from agent.errors import AgentError
from agent.events import Event, GivenBack, SettingsChanged, TurnEnded
from agent.tui.approval import Approval
from agent.tui.choices import Choices
from agent.tui.commands import command_offers, screen_commands
from agent.tui.completion import Offer
from agent.tui.composer import SHELL, Composer
from agent.tui.docks import Docks
from agent.tui.gauge import Gauge
from agent.tui.keyboard import Keyboard
from agent.tui.mentions import MentionOffers
from agent.tui.picture import Answer as Reply
from agent.tui.picture import Picture
from agent.tui.pump import Pump
from agent.tui.question import Question
from agent.tui.status import Status, shows_mode
from agent.tui.transcript import Transcript

NARROW, LOW = 20, 10  # columns below which a note stands in for the screen; rows below which the frame goes
STOPPING, UNOPENED = "Stopping …", "No conversation is open here: /new begins one, /resume chooses one."
TWICE = 2.0  # seconds between the two Ctrl+C that quit


class Chat(Screen[None]):
    CSS_PATH = "chat.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "interrupt", priority=True, show=False),
        Binding("ctrl+o", "unfold", priority=True, show=False),
        Binding("ctrl+g", "edit", priority=True, show=False),
        Binding("pageup", "page(-1)", priority=True, show=False),
        Binding("pagedown", "page(1)", priority=True, show=False),
        Binding("ctrl+end", "follow", priority=True, show=False),
        Binding("escape", "stop", show=False),
    ]

    def __init__(
        self,
        open_session: Callable[[], Session],
        *,
        label: str,
        welcome: Sequence[Strip],
        composer: Composer,
        read_branch: Callable[[], str] | None,
        first_prompt: str,
        commands: Registry,
        notes: Sequence[str],
        fail: Callable[[Exception], None],
        leave: Callable[[int], None],
        switch: Callable[[str | None], Awaitable[None]],
        edit: Callable[[str], str] | None,
    ) -> None:
        super().__init__()
        self._open = open_session
        self._read_branch = read_branch
        self._fail = fail
        self._leave = leave
        self._switch = switch
        self._edit = edit
        self.picture, self.gauge = Picture(), Gauge()
        self.transcript = Transcript(self.picture, welcome)
        self.composer, self.choices = composer, Choices(self)
        self.docks = Docks(self.picture, self.choices, composer)
        self.status = Status(self.gauge, label)
        self.commands = commands
        self.commands.remove("help")  # the screen has keys to tell of besides
        self.commands.add(*screen_commands(commands, leave, self._copy, self.action_edit))
        composer.complete = self._complete
        commands.changed = composer.offer
        self._mentions = MentionOffers(lambda: self.session and self.session.mentions, composer.offer, self.spawn)
        composer.take_back = self._take_back
        self.session: Session | None = None
        self._unsent: list[Ask] = []
        self._first_prompt = first_prompt
        self._ticking: Timer | None = None
        self._hinting: Timer | None = None
        self._stopped = self._interrupted = 0.0  # when Ctrl+C last stopped a turn, and last asked for a second one
        self._unopened, self._resumed = False, 0  # whether there can be no session; turns that were there before
        self._tasks: set[asyncio.Task[None]] = set()
        self._notes = notes

    def compose(self) -> ComposeResult:
        yield self.transcript
        yield from self.docks.widgets()
        yield self.composer.menu
        yield self.composer
        yield self.status
        yield Static("Make this window wider, please.", id="narrow", markup=False)

    def on_mount(self) -> None:
        self._ticking = self.set_interval(1.0, self.status.refresh, pause=True)
        self.composer.focus()
        self.call_after_refresh(self._start)

    def on_resize(self) -> None:
        width, height = self.size
        narrow = width < NARROW
        self.set_class(narrow, "-narrow")
        self.set_class(height < LOW, "-low")
        if not narrow and self.focused is None:
            self.docks.focus()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs it beside the screen; its bug is the app's."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, work: asyncio.Task[None]) -> None:
        self._tasks.discard(work)
        if not work.cancelled() and isinstance(error := work.exception(), Exception):
            self._fail(error)

    # ---- the session
    def _start(self) -> None:
        self._show()
        self.spawn(self._branch())
        try:
            self.session = self._open()
        except AgentError as error:
            self.picture.note(f"{error}\n{UNOPENED}", "error")
            self._unopened = True
        for text in self._notes:  # opening may have added to them
            self.picture.note(text)
        self.picture.queue = ()
        if self.session is None:
            self._give_back("\n\n".join([self._first_prompt, *(a.shown or a.text for a in self._unsent)]).strip())
            return self._show()
        self.gauge.mode = self.session.mode
        self._resumed = self.session.turn
        pump = Pump(self._fold, self._show, self._fail)
        self.spawn(pump.run(self.session.subscribe()))
        if self._first_prompt.strip():
            self.take(self._first_prompt, queued=True)
        for ask in self._unsent:
            self.session.submit(ask.text, shown=ask.shown, allowed=ask.allowed, points=ask.points)
        self._show()

    async def _branch(self) -> None:
        if self._read_branch is not None:
            self.gauge.branch = await asyncio.to_thread(self._read_branch)
            self.status.refresh()

    def _fold(self, event: Event) -> None:
        was = self.gauge.activity
        self.picture.apply(event)
        self.gauge.apply(event, time.monotonic())
        if isinstance(event, GivenBack):
            self._give_back(event.text)
        if isinstance(event, SettingsChanged) and event.key == "mode":
            self._mode_changed()
        if isinstance(event, TurnEnded) and event.turn > self._resumed:
            self._turn_ended(event)
        if was != "idle" and self.gauge.activity == "idle" and self._read_branch is not None:
            self.spawn(self._branch())

    def _show(self) -> None:
        if not self.is_attached:
            return
        self.transcript.show()
        self.docks.show(self.gauge.processes)
        if self._ticking is not None:
            if self.gauge.busy:
                self._ticking.resume()
            else:
                self._ticking.pause()
        self.status.refresh()

    def show_choice(self) -> None:
        self.docks.show_choice()

    def _turn_ended(self, event: TurnEnded) -> None:
        self.choices.ended()
        plan = next((e.text for e in reversed(self.picture.entries) if isinstance(e, Reply)), "")
        if event.outcome == "done" and self.gauge.mode == "plan" and plan and not self.composer.text.strip():
            self.choices.plan_ready(event.turn, plan)

    def write(self, text: str) -> None:
        self.composer.write(text)
        self.composer.focus()

    @on(Keyboard.Typed)
    def _typed(self, message: Keyboard.Typed) -> None:
        processes = self.session.processes if self.session is not None else None
        if processes is None or not processes.type_into(message.process_id, message.text):
            self._note("Nobody reads that any more.", "warning")

    # ---- what the user does
    @on(Composer.Sent)
    def _sent(self, message: Composer.Sent) -> None:
        self._hint("")
        self.transcript.follow()
        if self.choices.own is not None:
            self.choices.close()
        if self.picture.question is not None and not message.queued:
            self.choices.reply(self.picture.question.request_id, message.text)
        else:
            self.take(message.text, queued=message.queued)

    def take(self, text: str, *, queued: bool) -> None:
        if self._unopened and not self.commands.read(text):
            self._give_back(text)
            self._note(UNOPENED, "warning")
        elif text.startswith(SHELL):
            self._run_in_shell(text.removeprefix(SHELL))
        elif written := self.commands.read(text):
            self.spawn(self._run(*written))
        else:
            self._say(Ask(text), queued=queued)

    def _run_in_shell(self, command: str) -> None:
        try:
            if self.session is not None:
                self.session.shell.run(command)
        except AgentError as error:
            self._note(str(error), "warning")

    def _say(self, ask: Ask, *, queued: bool) -> None:
        if self.session is None:
            self._unsent.append(ask)
            self.picture.queue = tuple((waiting.shown or waiting.text, "queued") for waiting in self._unsent)
            self._show()
        elif self.session.running and not queued:
            self.session.steer(ask.text)
        else:
            self.session.submit(ask.text, shown=ask.shown, allowed=ask.allowed, points=ask.points)

    async def _run(self, command: Command | None, name: str, argument: str) -> None:
        if (command := command or await self.commands.arriving(name)) is None:
            self._note(f"There is no command /{name}; /help lists them.", "warning")
            return
        try:
            await self._answer(await command.run(argument))
        except AgentError as error:
            self._note(str(error), "warning")

    async def _answer(self, answer: Answer) -> None:
        match answer:
            case Said(shown=True) | None:
                pass
            case Diff(text=text):
                self.picture.diff(text)
                self._show()
            case Said(text=text, level=level, draw=draw):
                self.picture.note(text, level, draw)
                self._show()
            case Ask():
                self._say(answer, queued=True)
            case Open() if self.session is not None and self.session.running:
                self._note("A turn is running; stop it first (Esc).", "warning")
            case Open(session_id=session_id):
                await self._switch(session_id)

    def _note(self, text: str, level: Level = "info") -> None:
        self.picture.note(text, level)
        self._show()

    @property
    def _app(self) -> App[object]:
        return self.app  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] - of no known result

    def _copy(self) -> Answer:
        said = next((e.text for e in reversed(self.picture.entries) if isinstance(e, Reply) and e.text), "")
        if not said:
            return Said("There is no answer to copy yet.")
        self._app.copy_to_clipboard(said)
        return Said(f"The last answer was copied ({len(said):,} characters).")

    def _complete(self, text: str, cursor: int) -> Sequence[Offer]:
        mentioned = self._mentions(text, cursor)
        return command_offers(self.commands, text, cursor) if mentioned is None else mentioned

    def _mode_changed(self) -> None:
        if not shows_mode(self.gauge, self.status.label, time.monotonic(), self.status.size.width):
            self._hint(f"Permission mode: {self.gauge.mode}", TWICE)

    @on(Composer.NextMode)
    def _next_mode(self) -> None:
        if self.session is not None:
            self.session.set_mode(MODES[(MODES.index(self.session.mode) + 1) % len(MODES)])

    @on(Composer.Stop)
    @on(Approval.Stop)
    @on(Keyboard.Stop)
    def action_stop(self) -> None:
        if self.session is not None and self.session.shell.running:
            self.spawn(self.session.shell.stop())
        elif self.session is not None and self.session.running:
            self.spawn(self._cancel(self.session))
        elif not self.composer.text:
            self.choices.escaped()

    async def _cancel(self, session: Session) -> None:
        self._hint(STOPPING)
        unsent = await session.cancel()
        if self.status.hint == STOPPING:
            self._hint("")
        self._give_back("\n\n".join(unsent))

    def _take_back(self) -> str:
        return "\n\n".join(self.session.take_back()) if self.session is not None else ""

    def _give_back(self, text: str) -> None:
        """Before what is being written: it was said before."""
        if text:
            written = self.composer.whole()
            self.composer.put(f"{text}\n\n{written}" if written.strip() else text)

    @on(Approval.Answered)
    def _answered(self, message: Approval.Answered) -> None:
        if self.session is not None:
            self.session.answer(message.request_id, message.decision)

    @on(Composer.Changed)
    def _written(self) -> None:
        if not self.composer.text:
            self.docks.emptied()

    def on_paste(self, event: Paste) -> None:
        """A dock had the keys and wants none of it."""
        self.composer.focus()
        self.composer.paste(event.text)

    @on(Approval.Stray)
    @on(Question.Stray)
    def _stray(self, message: Approval.Stray | Question.Stray) -> None:
        self.composer.focus()
        self.composer.stray(message.key, message.character)

    def action_interrupt(self) -> None:
        """Ctrl+C: copies a selection, else stops the turn, else clears the text, else quits when pressed twice. The
        presses of someone in a hurry go through all of these."""
        if self.get_selected_text():
            self.action_copy_text()
            self.clear_selection()
            return
        now = time.monotonic()
        busy = self.session is not None and (self.session.running or self.session.shell.running)
        if busy and now - self._stopped > TWICE:
            self._stopped = now
            self.action_stop()
        elif self.composer.text:
            self.composer.take()
        elif now - self._interrupted < TWICE:
            self._leave(130)
        else:
            self._interrupted = now
            self._hint("Press Ctrl+C again to quit", TWICE)

    def _hint(self, text: str, seconds: float | None = None) -> None:
        self.status.hint = text
        self.status.refresh()
        if self._hinting is not None:
            self._hinting.stop()
        self._hinting = self.set_timer(seconds, lambda: self._hint("")) if seconds else None

    def action_unfold(self) -> None:
        self.transcript.unfold()

    def action_edit(self) -> None:
        """The whole screen is the editor's until it has ended; events wait meanwhile."""
        if self._edit is None:
            return
        try:
            with self._app.suspend():
                text = self._edit(self.composer.whole())
        except (AgentError, SuspendNotSupported) as error:
            self._note(str(error), "warning")
        else:
            self.composer.put(text)
        self._app.refresh()

    def action_page(self, direction: int) -> None:
        if direction < 0:
            self.transcript.stay()
        self.transcript.scroll_relative(y=direction * max(1, self.transcript.size.height - 2), animate=False)

    def action_follow(self) -> None:
        self.transcript.follow()
