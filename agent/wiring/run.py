"""The ways to run: the screen, one prompt without it, a console command."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agent.config.paths import Paths
from agent.errors import AgentError, ConfigError
from agent.speech import tell
from agent.wiring.logs import log_to
from agent.wiring.options import Options
from agent.wiring.parts import Parts

if TYPE_CHECKING:
    from agent.config.profile import Profile
    from agent.config.settings import Loaded
    from agent.events import ServerState
    from agent.headless import OutputFormat
    from agent.runtime.record import Home
    from agent.runtime.supervisor import Supervisor


_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def _to_stdout(text: str) -> None:
    """A terminal gets no escape sequences: the model's words, or a file's, would be obeyed. Raises AgentError when it
    cannot be written, BrokenPipeError when the reader has gone."""
    if sys.stdout.isatty():
        text = _CONTROLS.sub("\ufffd", text)
    try:
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the interpreter flushes once more at its end
        raise AgentError(f"Cannot write to standard output: {error.strerror}.") from error


def _when_unread(stop: Callable[[], None]) -> None:
    """Calls `stop` once nobody can read our standard output any more, if it is a pipe. The writing end of a pipe is
    never ready to be read; the kernel reports it so only when its reader has gone."""
    loop = asyncio.get_running_loop()

    def gone() -> None:
        loop.remove_reader(1)
        stop()

    if stat.S_ISFIFO(os.fstat(1).st_mode):
        loop.add_reader(1, gone)


def run_session(
    env: Mapping[str, str], verb: str, ids: Sequence[str] = (), *, file: str = "", as_json: bool = False
) -> int:
    """Raises AgentError."""
    from agent.console.sessions import run
    from agent.store.archive import FileArchive

    return run(verb, FileArchive(Paths.from_env(env).sessions), _to_stdout, ids, file=file, as_json=as_json)


def run_headless(options: Options, env: Mapping[str, str], prompt: str, output: OutputFormat) -> int:
    from agent.headless import run

    parts = Parts(options, env, can_ask=False)
    unread: list[bool] = []

    async def work() -> int:
        session = parts.open_session()
        for note in parts.start_notes:
            tell(note)
        answer = asyncio.create_task(run(session, prompt, output, _to_stdout, tell, parts.registry))

        def stop() -> None:
            unread.append(True)
            answer.cancel()

        try:
            _when_unread(stop)
            return await answer
        except asyncio.CancelledError:
            if unread:
                raise BrokenPipeError from None
            raise
        finally:
            await parts.close()

    return asyncio.run(work())


def run_screen(options: Options, env: Mapping[str, str], first_prompt: str) -> int:
    os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")  # without it, a missing git makes the import itself fail
    from agent.store.prompts import PromptHistory
    from agent.tui.app import DflashApp
    from agent.workspace.editor import edit
    from agent.workspace.repo import branch_label

    parts = Parts(options, env, can_ask=True)
    history = PromptHistory(parts.paths.state / "history.jsonl")
    app = DflashApp(
        parts.open_session,
        reopen=parts.reopen,
        profile_label=parts.server.profile.title if parts.server.profile else "attached",
        folder=options.folder,
        read_branch=lambda: branch_label(options.folder),
        edit=lambda text: edit(text, env),
        mode=parts.mode,
        history=history.load(),
        remember=history.add,
        first_prompt=first_prompt,
        commands=parts.registry,
        start_notes=parts.start_notes,
        setup=None if parts.server.in_place() else parts.server,
        crash_log=parts.paths.logs / "dflash-agent.log",
    )

    async def work() -> int:
        try:
            code = await app.run_async()
        finally:
            await parts.close()
        return code if isinstance(code, int) else app.return_code or 0

    return asyncio.run(work())


def run_config(arguments: argparse.Namespace, env: Mapping[str, str]) -> int:
    """Raises AgentError."""
    from agent.config.trust import Trust
    from agent.console.config import run
    from agent.wiring.wall import settings_told

    paths, given = Paths.from_env(env), vars(arguments)
    key, as_json = given.get("key", ""), given.get("json", False)

    def loaded() -> Loaded:
        return settings_told(Path.cwd(), paths, Trust(paths.trust), env)

    return run(arguments.verb, _to_stdout, paths.settings, loaded, key, as_json=as_json)


def run_mcp_command(arguments: argparse.Namespace, env: Mapping[str, str]) -> int:
    from agent.wiring.mcp import run_mcp

    log_to(Paths.from_env(env).logs / "dflash-agent.log")
    return run_mcp(arguments, env, _to_stdout)


def run_command(arguments: argparse.Namespace, env: Mapping[str, str]) -> int:
    """Raises AgentError."""
    if arguments.command == "skill":
        from agent.wiring.trial import run_skill

        return run_skill(arguments, Paths.from_env(env), env)
    from agent.console.commands import run
    from agent.runtime.hardware import read_machine
    from agent.runtime.survey import suited
    from agent.wiring.choice import ServerChoice
    from agent.wiring.engine import chosen_profile, load, locator, supervisor
    from agent.wiring.room import other_checks

    paths = Paths.from_env(env)

    def options() -> Options:
        flags = arguments
        speculation = not flags.no_dflash
        return Options(Path(), profile=flags.profile, speculation=speculation, ctx=flags.ctx, offline=flags.offline)

    def profile() -> Profile:
        try:
            return chosen_profile(options(), paths, env)
        except ConfigError:
            if arguments.command != "doctor" or arguments.profile:
                raise
            return load(suited(read_machine(env))[0], options(), paths)  # what is wrong is one of its findings

    def choice() -> ServerChoice:
        return ServerChoice(options(), paths, env, lambda event: None, own=True)

    def make(profile: Profile, home: Home, publish: Callable[[ServerState], None]) -> Supervisor:
        return supervisor(profile, home, paths, env, arguments.offline, publish)

    others = partial(other_checks, paths, env, Path.cwd())
    return run(arguments, paths, env, profile, make, locator(paths), choice, others)
