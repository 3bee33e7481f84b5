"""The command line: arguments in, exit code out. Imports neither textual, openai nor mcp; `--version` imports no more
than it needs."""

from __future__ import annotations

import argparse
import os
import select
import sys
from collections.abc import Sequence
from pathlib import Path

from agent import __version__
from agent.console.arguments import COMMANDS
from agent.console.arguments import parser as command_parser
from agent.console.arguments import read as read_command
from agent.errors import AgentError, ConfigError, RuntimeFailure
from agent.speech import tell

PERMISSION_MODES = ("ask", "accept-edits", "plan", "auto")
OUTPUT_FORMATS = ("text", "json", "stream-json")
EXIT_FAILED, EXIT_USAGE, EXIT_NO_ENGINE, EXIT_INTERRUPTED = 1, 2, 3, 130
STDIN_SILENT = 2.0  # seconds; what feeds a pipe has long begun

EPILOG = """examples:
  dflash-agent                                    the screen, in this folder
  dflash-agent "add a --json flag to report.py"   the same, with a first message
  dflash-agent -p "explain main.py"               one prompt, no screen
  dflash-agent --profile smoke                    a tiny model on the CPU: tries the whole product anywhere
  dflash-agent --server http://127.0.0.1:8080     a model server that already runs
  dflash-agent -- server                          a first message that is the name of a command

commands (each with --help):
  dflash-agent doctor                             what is there, what is missing, what to do about it
  dflash-agent setup                              get engine and models, without the screen
  dflash-agent server start|stop|restart|status|logs
  dflash-agent mcp new|add|list|get|test|remove      MCP servers; test says why one does not work
  dflash-agent session list|show|export|delete
  dflash-agent completion bash|zsh|fish           Tab in your shell: eval "$(dflash-agent completion bash)"
  dflash-agent skill list|show|new|check          steps for kinds of work: docs/skills.md
  dflash-agent config path|show|explain           what is settled, and by which file: docs/config.md

exit codes: 0 done, 1 failed, 2 usage or configuration, 3 engine not available, 4 permission needed but nobody to ask,
5 limit reached, 130 Ctrl-C, 143 TERM"""


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _given(text: str) -> str:
    """An unset shell variable must not mean the default."""
    if not text.strip():
        raise argparse.ArgumentTypeError("it is empty")
    return text


def parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(
        prog="dflash-agent",
        description="A terminal coding agent on top of local DFlash inference.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = root.add_argument
    add("prompt", nargs="?", metavar="PROMPT", help="first message")
    add("-V", "--version", action="version", version=f"dflash-agent {__version__}")
    add("-p", "--print", dest="print_", nargs="?", const="", metavar="PROMPT", help="one prompt, no screen")
    add("--output-format", choices=OUTPUT_FORMATS, default="text", help="with -p (default: text)")
    add("-c", "--continue", dest="continue_", action="store_true", help="go on with this folder's last session")
    add("-r", "--resume", nargs="?", const="", metavar="ID", help="go on with a session; without ID: list them")
    add("--fork", action="store_true", help="with -c or -r: go on in a copy")
    add(
        "--profile",
        type=_given,
        metavar="NAME",
        help="engine, model and draft (default: as last time)",
    )
    add("--no-dflash", action="store_true", help="the same model without speculation")
    add("--ctx", type=_positive, metavar="N", help="context in tokens (with --server: use no more than this)")
    add("--server", type=_given, metavar="URL", help="attach to a model server instead of starting one")
    add("--permission-mode", choices=PERMISSION_MODES, help="what needs no question (default: ask)")
    add("--max-turns", type=_positive, metavar="N", help="requests to the model for one message, at most")
    add(
        "--add-dir",
        type=_given,
        action="append",
        default=[],
        metavar="DIR",
        help="another folder that belongs to the project",
    )
    add(
        "--mcp-config",
        type=_given,
        action="append",
        default=[],
        metavar="FILE",
        help="MCP servers for this run, as in .mcp.json; they need no approval",
    )
    add("--trust", action="store_true", help="what came with the folder (skills, servers, commands) may run, this time")
    add("-C", dest="folder", type=_given, metavar="DIR", help="work in DIR")
    add("--offline", action="store_true", help="download nothing")
    return root


def _read_stdin(prompted: bool) -> str:
    """Whole. `prompted`: there is a prompt without it, so that an input that never ends is likely nobody's will."""
    if sys.stdin is None or sys.stdin.isatty():
        return ""
    try:
        if prompted and not select.select([sys.stdin], [], [], STDIN_SILENT)[0]:
            tell("Waiting for standard input to end, since it belongs to the prompt; without any, add </dev/null")
        return sys.stdin.buffer.read().decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""


def _folder(text: str | None) -> Path:
    try:
        folder = Path(text).expanduser() if text else Path.cwd()
        folder = folder.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise ConfigError(f"Cannot work in {text or 'this folder'}: it does not exist or cannot be entered.") from error
    if not folder.is_dir() or not os.access(folder, os.R_OK | os.X_OK):
        raise ConfigError(f"Cannot work in {folder}: it is not a folder that can be entered.")
    return folder


def _fill_closed_streams() -> None:
    """Otherwise the next files that we or our children open would get the numbers of standard streams."""
    if sys.stdin is None:
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_RDONLY))
    if sys.stdout is None:
        os.open(os.devnull, os.O_WRONLY)
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")


def main(argv: Sequence[str] | None = None) -> int:
    _fill_closed_streams()
    given = list(sys.argv[1:] if argv is None else argv)
    if "_ARGCOMPLETE" in os.environ:
        from agent.console.completion import complete

        complete(parser(), command_parser(_positive))
    command = given[:1] != [] and given[0] in COMMANDS
    arguments = read_command(given, _positive) if command else parser().parse_args(given)
    headless = not command and arguments.print_ is not None
    try:
        return _run_command(arguments) if command else _run(arguments, headless)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # whoever read our output has gone; keep the interpreter from complaining at its last flush
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    except AgentError as error:
        if headless and arguments.output_format != "text" and sys.stdout is not None:
            from agent.headless import failure

            sys.stdout.write(failure(error.kind, str(error)))
        tell(f"dflash-agent: {error}")
        if isinstance(error, ConfigError):
            return EXIT_USAGE
        return EXIT_NO_ENGINE if isinstance(error, RuntimeFailure) else EXIT_FAILED


def _run_command(arguments: argparse.Namespace) -> int:
    from agent.wiring.run import run_command, run_config, run_mcp_command, run_session

    if arguments.command == "completion":
        from agent.console.completion import shell_code

        sys.stdout.write(shell_code(arguments.shell))
        return 0
    try:
        if arguments.command == "session":
            given = vars(arguments)
            file, as_json = given.get("file", ""), given.get("json", False)
            return run_session(os.environ, arguments.verb, given.get("ids", ()), file=file, as_json=as_json)
        if arguments.command == "config":
            return run_config(arguments, os.environ)
        if arguments.command == "mcp":
            return run_mcp_command(arguments, dict(os.environ))
        return run_command(arguments, dict(os.environ))
    except RuntimeFailure as failure:
        for line in failure.last_words:
            tell(line)
        raise


def _run(arguments: argparse.Namespace, headless: bool) -> int:
    if sys.stdout is None:
        raise ConfigError("Standard output is closed; send it to a file, a pipe or a terminal.")
    from agent.wiring.options import Options
    from agent.wiring.run import run_headless, run_screen, run_session

    if arguments.server and (arguments.profile or arguments.no_dflash):
        raise ConfigError("--server attaches to a running server; --profile and --no-dflash belong to our own.")
    if arguments.resume == "":
        return run_session(os.environ, "list")
    if arguments.fork and not (arguments.continue_ or arguments.resume):
        raise ConfigError("--fork copies a session: use it with -c or -r ID.")
    if arguments.continue_ and arguments.resume:
        raise ConfigError("Use either -c or -r ID.")
    options = Options(
        folder=_folder(arguments.folder),
        extra=tuple(_folder(d) for d in arguments.add_dir),
        profile=arguments.profile,
        speculation=not arguments.no_dflash,
        ctx=arguments.ctx,
        server=arguments.server,
        mode=arguments.permission_mode,
        max_turns=arguments.max_turns,
        resume=arguments.resume,
        resume_last=arguments.continue_,
        fork=arguments.fork,
        offline=arguments.offline,
        trust=arguments.trust,
        mcp_config=tuple(arguments.mcp_config),
    )
    if headless:
        given = (arguments.print_, arguments.prompt or "")
        parts = (*given, _read_stdin(prompted=any(p.strip() for p in given)))
        prompt = "\n\n".join(p for p in parts if p.strip())
        if not prompt:
            raise ConfigError("-p needs a prompt: give it as an argument or on standard input.")
        return run_headless(options, dict(os.environ), prompt, arguments.output_format)
    if not sys.stdin.isatty() or not sys.stdout.isatty():
        raise ConfigError("The screen needs a terminal; use -p PROMPT to work without one.")
    return run_screen(options, dict(os.environ), arguments.prompt or "")
