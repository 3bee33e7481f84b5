"""Which console command runs, with what. Knows no concrete way to make a supervisor or to look into the hub's cache."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Mapping

from agent.config.paths import Paths
from agent.config.profile import Profile
from agent.console import doctor, server, setup


def run(
    arguments: argparse.Namespace,
    paths: Paths,
    env: Mapping[str, str],
    profile: Callable[[], Profile],
    make: server.MakeSupervisor,
    locate: doctor.Locate,
    choice: Callable[[], setup.Chosen],
    others: doctor.More,
) -> int:
    """The exit status. `profile`: as the flags ask for; `locate`: where a model file lies;
    `choice`: of one of our own engines, for setup. Raises AgentError."""

    def ask() -> bool:
        if arguments.yes or not sys.stdin.isatty():
            return True
        return input("Get it ready? [Y/n] ").strip().lower() in ("", "y", "yes")

    match arguments.verb if arguments.command == "server" else arguments.command:
        case "stop":
            return asyncio.run(server.stop(paths, arguments.profile))
        case "status":
            return asyncio.run(server.status(paths, as_json=arguments.json))
        case "logs":
            return asyncio.run(server.logs(paths, arguments.profile, follow=arguments.follow))
        case "doctor":
            return asyncio.run(doctor.doctor(profile(), paths, env, locate, others, as_json=arguments.json))
        case "setup" if arguments.dry_run:
            return asyncio.run(setup.dry_run(profile(), paths, env, locate))
        case "setup":
            return asyncio.run(setup.setup(choice(), ask))
        case "restart":
            wanted = profile()
            asyncio.run(server.stop(paths, wanted.name))
            return asyncio.run(server.start(wanted, paths, make))
        case _:
            return asyncio.run(server.start(profile(), paths, make))
