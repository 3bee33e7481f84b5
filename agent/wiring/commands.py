"""The slash commands of one run, those of every front end."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import TYPE_CHECKING

from agent import __version__
from agent.commands.base import Registry
from agent.commands.cache import cache_command
from agent.commands.changes import change_commands
from agent.commands.config import config_command
from agent.commands.context import compact_command, context_command
from agent.commands.conversation import mode_command, plan_command, thinking_command
from agent.commands.general import help_command
from agent.commands.mcp import mcp_command
from agent.commands.model import model_command
from agent.commands.permissions import permissions_command
from agent.commands.processes import processes_command
from agent.commands.server import doctor_command, server_command, status_command
from agent.commands.sessions import session_commands
from agent.commands.speed import speed_command
from agent.config.settings import Settings
from agent.tools.diff import unified
from agent.wiring.engine import chosen_profile
from agent.wiring.room import examine
from agent.wiring.wall import explain

if TYPE_CHECKING:
    from agent.wiring.parts import Parts


def build_commands(parts: Parts) -> Registry:
    """`parts` may still be in the making: nothing of it is used before a command runs, but what is named here."""
    server, options, paths, env = parts.server, parts.options, parts.paths, parts.env

    def doctor() -> Awaitable[str]:
        profile = server.profile or chosen_profile(options, paths, env)
        return examine(profile, paths, env, options.folder)

    registry = Registry(
        [
            *session_commands(parts.opened, parts.archive, options.folder),
            mode_command(parts.opened),
            plan_command(parts.opened),
            *change_commands(parts.opened, unified),
            permissions_command(parts.opened, lambda: parts.rules),
            thinking_command(parts.opened),
            processes_command(parts.book),
            compact_command(parts.opened),
            context_command(parts.opened),
            speed_command(parts.opened),
            cache_command(parts.opened, server.ensure_ready),
            model_command(server.survey, lambda: server.choice, parts.change),
            server_command(
                lambda: server,
                server,
                lambda: server.profile is None,
                lambda: parts.session is not None and parts.session.running,
            ),
            status_command(parts.opened, str(options.folder), lambda: server.label, __version__),
            doctor_command(doctor),
            config_command(partial(explain, options.folder, paths, parts.trust, env), tuple(Settings.model_fields)),
            mcp_command(lambda: parts.mcp, lambda text: parts.notice("info", text)),
        ]
    )
    registry.add(help_command(registry))
    return registry
