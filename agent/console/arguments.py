"""The arguments of the console commands. Imports nothing heavy."""

from __future__ import annotations

import argparse
from collections.abc import Callable

COMMANDS = ("server", "doctor", "setup", "session", "mcp", "skill", "config", "completion")
SHELLS = ("bash", "zsh", "fish")

ANSWER_TIMEOUT = 180.0  # seconds; a machine without a GPU reads the skills' names for a minute


def parser(positive: Callable[[str], int]) -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(prog="dflash-agent", allow_abbrev=False)
    commands = root.add_subparsers(dest="command", required=True)
    of_profile = argparse.ArgumentParser(add_help=False)
    of_profile.add_argument("--profile", metavar="NAME", help="engine, model and draft (default: as last time)")
    of_profile.add_argument("--no-dflash", action="store_true", help="the same model without speculation")
    of_profile.add_argument("--ctx", type=positive, metavar="N", help="context in tokens")
    of_profile.add_argument("--offline", action="store_true", help="download nothing")

    server = commands.add_parser("server", help="the engine that runs", description="The engines of this user.")
    verbs = server.add_subparsers(dest="verb", required=True)
    verbs.add_parser("start", parents=[of_profile], help="start it; it stays until it is stopped")
    verbs.add_parser("restart", parents=[of_profile], help="stop it if it runs, then start it")
    stop = verbs.add_parser("stop", help="stop it, whoever uses it")
    stop.add_argument("--profile", metavar="NAME", help="only that one (default: all)")
    status = verbs.add_parser("status", help="what runs, how fast, and on what memory")
    status.add_argument("--json", action="store_true")
    logs = verbs.add_parser("logs", help="the last lines of its log")
    logs.add_argument("--profile", metavar="NAME", help="of that one (default: the last used)")
    logs.add_argument("-f", "--follow", action="store_true", help="go on until Ctrl+C")

    doctor = commands.add_parser("doctor", parents=[of_profile], help="what is there, what is missing, what to do")
    doctor.add_argument("--json", action="store_true", help="for programs (docs/doctor.schema.json)")

    setup = commands.add_parser("setup", parents=[of_profile], help="get engine and models, without the screen")
    setup.add_argument("--yes", action="store_true", help="ask nothing")
    setup.add_argument("--dry-run", action="store_true", help="say what would be done, do nothing")

    session = commands.add_parser("session", help="what was said", description="The sessions of this machine.")
    verbs = session.add_subparsers(dest="verb", required=True)
    listing = verbs.add_parser("list", help="all of them, the last used first")
    listing.add_argument("--json", action="store_true")
    verbs.add_parser("show", help="one of them, as Markdown").add_argument("ids", metavar="ID", nargs=1)
    export = verbs.add_parser("export", help="write one of them to a Markdown file")
    export.add_argument("ids", metavar="ID", nargs=1)
    export.add_argument("file", metavar="FILE", nargs="?", default="-", help="must not exist; - for standard output")
    verbs.add_parser("delete", help="delete them for good").add_argument("ids", metavar="ID", nargs="+")

    _add_mcp(
        commands.add_parser("mcp", help="MCP servers", description="The MCP servers of this user and this folder.")
    )

    config = commands.add_parser("config", help="what is settled, and by which file", description="docs/config.md.")
    verbs = config.add_subparsers(dest="verb", required=True)
    verbs.add_parser("path", help="where your own file is")
    show = verbs.add_parser("show", help="all that holds in this folder")
    show.add_argument("--json", action="store_true")
    verbs.add_parser("explain", help="who said what about one of them").add_argument("key", metavar="KEY")

    completion = commands.add_parser("completion", help='Tab in your shell: eval "$(dflash-agent completion bash)"')
    completion.add_argument("shell", choices=SHELLS)
    _add_skill(commands.add_parser("skill", help="steps for kinds of work", description="Skills: see docs/skills.md."))
    return root


def read(given: list[str], positive: Callable[[str], int]) -> argparse.Namespace:
    """What stands behind `mcp add` is a command line of its own, which no parser of ours may take apart."""
    if given[:2] == ["mcp", "add"] and given[2:3] not in (["-h"], ["--help"], []):
        return argparse.Namespace(command="mcp", verb="add", words=given[2:])
    return parser(positive).parse_args(given)


def _add_mcp(mcp: argparse.ArgumentParser) -> None:
    verbs = mcp.add_subparsers(dest="verb", required=True)
    add = verbs.add_parser(
        "add",
        help="as other agents document it: NAME -- COMMAND ARGS, NAME URL, or JSON",
        usage="dflash-agent mcp add [-s user|project|local] [-t stdio|http|sse] [-e KEY=VALUE] [-H 'Name: value'] "
        "NAME (-- COMMAND ARGS | URL | JSON)",
    )
    add.add_argument("words", nargs=argparse.REMAINDER, metavar="…", help=argparse.SUPPRESS)
    listing = verbs.add_parser("list", help="what is configured, and from where")
    listing.add_argument("--json", action="store_true")
    get = verbs.add_parser("get", help="one of them, without its secrets")
    get.add_argument("name", metavar="NAME")
    get.add_argument("--json", action="store_true")
    test = verbs.add_parser("test", help="start it, greet it, list and call its read-only tools, and say how each went")
    test.add_argument("names", metavar="NAME", nargs="*", help="default: all that may run")
    test.add_argument("--call", metavar="TOOL", help="call this tool")
    test.add_argument("--arguments", metavar="JSON", help="with these arguments (default: generated ones)")
    test.add_argument("--every", action="store_true", help="call every tool with generated arguments, changes included")
    new = verbs.add_parser("new", help="write one of your own: a small server that works, with tests, in this project")
    new.add_argument("name", metavar="NAME", help="small letters, digits and hyphens")
    remove = verbs.add_parser("remove", help="take it out of its file")
    remove.add_argument("name", metavar="NAME")
    remove.add_argument("-s", "--scope", choices=("user", "project", "local"))


def _add_skill(skill: argparse.ArgumentParser) -> None:
    verbs = skill.add_subparsers(dest="verb", required=True)
    listed = verbs.add_parser("list", help="all that are found, which one counts, and what is odd")
    listed.add_argument("--json", action="store_true")
    show = verbs.add_parser("show", help="where one is, and its text")
    show.add_argument("name", metavar="NAME")
    new = verbs.add_parser("new", help="make one in this folder, ready to be filled in")
    new.add_argument("name", metavar="NAME", help="lower case letters, digits and hyphens")
    new.add_argument("--description", metavar="TEXT", help="what it does and when to use it")
    new.add_argument("--user", action="store_true", help="for all folders of this user")
    check = verbs.add_parser(
        "check", help="against the specification, and, where an engine runs, whether the model chooses it"
    )
    check.add_argument("skill", nargs="*", metavar="NAME|DIR", help="(default: all but the bundled ones)")
    check.add_argument("--server", metavar="URL", help="ask this model server")
    limit = "for the answer to one sample prompt (default: %(default)g)"
    check.add_argument("--timeout", type=float, default=ANSWER_TIMEOUT, metavar="SECONDS", help=limit)
