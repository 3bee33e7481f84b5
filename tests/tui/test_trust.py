"""What came with a folder, asked about on a real terminal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fakes.llama import FakeLlama, calls, say
from tests.fakes.mcp_server import script, text, tool
from tests.terminal import Terminal

Start = Callable[..., Terminal]
ASKED = "Trust this folder?"


class Folder:
    def __init__(self, base: Path) -> None:
        self.home, self.project = base / "home", base / "project"
        for folder in (self.home, self.project / ".git"):
            folder.mkdir(parents=True)

    def write(self, place: str, content: str) -> None:
        file = self.project / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)

    def fill(self, base: Path) -> None:
        """One of each kind."""
        self.write(".agents/skills/tide/SKILL.md", "---\nname: tide\ndescription: Use for tide.\n---\nFind the tide.")
        self.write(".agents/skills/tide/scripts/tide.sh", "echo high")
        self.write(".dflash/commands/web/deploy.md", "Deploy it.")
        self.write(".dflash/config.toml", 'sandbox = "workspace"\n')
        entry = script(base, "notes", tools=[tool("look")], results={"look": text("a note")})
        self.write(".mcp.json", json.dumps({"mcpServers": {"notes": entry}}))


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.fixture
def start(folder: Folder) -> Iterator[Start]:
    opened: list[Terminal] = []

    def run(server: FakeLlama, *arguments: str, columns: int = 100, rows: int = 40) -> Terminal:
        env = {"PATH": os.environ["PATH"], "HOME": str(folder.home), "DFLASH_HOME": str(folder.home / "d")}
        argv = [sys.executable, "-P", "-m", "agent", "--server", server.url, *arguments]
        opened.append(Terminal(argv, env | {"TERM": "xterm-256color"}, folder.project, columns, rows))
        return opened[-1]

    yield run
    for terminal in opened:
        terminal.close()


def words(screen: str) -> str:
    """The screen without its frames, as one line."""
    return " ".join(screen.replace("│", " ").split())


def seen(what: str) -> Callable[[str], bool]:
    return lambda screen: what in words(screen)


def trust(terminal: Terminal) -> None:
    """Left, twice: from the last choice to the first, and Enter once that is marked."""
    terminal.until(seen("[not now]"))
    terminal.type("\x1b[D\x1b[D")
    terminal.until(seen("[trust it, and remember]"))
    terminal.type("\r")


@pytest.mark.parametrize(("columns", "rows"), [(40, 24), (80, 24), (120, 40)])
def test_a_folder_that_brings_something_is_asked_about_once_at_every_width(
    folder: Folder, start: Start, tmp_path: Path, columns: int, rows: int
) -> None:
    folder.fill(tmp_path)
    with FakeLlama([say("hello")]) as server:
        terminal = start(server, columns=columns, rows=rows)
        screen = terminal.until(seen("[not now]"))
        assert ASKED in screen and all(
            choice in words(screen) for choice in ("trust it, and remember", "only for this run", "[not now]")
        )
        for _ in range(40):  # what does not fit is scrolled to
            terminal.type("\x1b[B")
        terminal.until(lambda screen: ".dflash/config.toml" in screen)
        terminal.type("\r")
        terminal.until(
            seen("Left out: MCP server notes; skill tide; command /web:deploy; settings .dflash/config.toml")
        )
        terminal.type("\x11")
        assert terminal.wait() == 0
        again = start(server, columns=columns, rows=rows)
        again.until(seen("What shall we build?"))
        again.type("hi\r")
        assert ASKED not in again.until(seen("hello"))


def test_the_question_shows_what_each_thing_would_run(folder: Folder, start: Start, tmp_path: Path) -> None:
    folder.fill(tmp_path)
    with FakeLlama([]) as server:
        screen = words(start(server, columns=160).until(seen("[not now]")))
    assert f"notes ({sys.executable} " in screen and "tide (scripts/tide.sh)" in screen and "/web:deploy" in screen


def test_what_is_trusted_counts_at_once_and_is_told_in_the_newest_message(
    folder: Folder, start: Start, tmp_path: Path
) -> None:
    folder.fill(tmp_path)
    find = calls(("mcp_find", {"query": "look"}))  # it waits for a server that still starts
    look = calls(("mcp_call", {"tool": "mcp__notes__look", "arguments": {}}))
    with FakeLlama([say("before"), say("deployed"), find, look, say("done"), say("fresh")]) as server:
        terminal = start(server, "--permission-mode", "auto", rows=50)
        terminal.until(seen("[not now]"))
        terminal.type("first words\r")  # what is typed goes to the composer, behind the question
        terminal.until(lambda screen: "before" in screen and ASKED in screen)
        trust(terminal)
        terminal.until(seen("These count from now on, as they are now: MCP server notes; skill tide"))
        terminal.type("/web:deploy\r")
        terminal.until(seen("deployed"))
        terminal.type("look\r")
        terminal.until(seen("a note"))
        terminal.until(seen("done"))
        terminal.type("\x11")
        assert terminal.wait() == 0
        start(server, "again", rows=50).until(lambda screen: "fresh" in screen and ASKED not in screen)
    first, second, third, *_, fresh = (r["messages"] for r in server.requests)
    assert second[: len(first)] == first and third[: len(second)] == second  # nothing that was sent has moved
    assert "tide" not in first[0]["content"] and "Deploy it." in second[-1]["content"]
    assert "- tide: Use for tide." in second[-1]["content"] and "mcp__notes__look" in str(
        server.requests[3]["messages"]
    )
    assert "- tide: Use for tide." in fresh[0]["content"]


def test_for_this_run_is_not_remembered_and_a_digit_decides_nothing(
    folder: Folder, start: Start, tmp_path: Path
) -> None:
    folder.fill(tmp_path)
    with FakeLlama([say("one")]) as server:
        terminal = start(server)
        terminal.until(seen("[not now]"))
        terminal.type("1")
        terminal.until(lambda screen: "│ 1 " in screen and "[not now]" in screen)
        terminal.type("\x7f")
        terminal.until(lambda screen: "│ 1 " not in screen)  # an empty line gives the keys back to the question
        terminal.type("\x1b[D")
        terminal.until(seen("[only for this run]"))
        terminal.type("\r")
        terminal.until(seen("These count for this run:"))
        terminal.type("\x11")
        assert terminal.wait() == 0
        start(server).until(seen(ASKED))


def test_what_has_changed_is_asked_about_anew_and_nothing_else(folder: Folder, start: Start, tmp_path: Path) -> None:
    folder.fill(tmp_path)
    with FakeLlama([]) as server:
        terminal = start(server)
        trust(terminal)
        terminal.until(seen("These count from now on"))
        terminal.type("\x11")
        assert terminal.wait() == 0
        folder.write(".agents/skills/tide/scripts/tide.sh", "rm -rf ~")
        screen = words(start(server).until(seen("[not now]")))
    assert "tide (changed; scripts/tide.sh)" in screen and "/web:deploy" not in screen and "MCP servers" not in screen


def test_an_ordinary_folder_is_asked_nothing(folder: Folder, start: Start) -> None:
    folder.write("README.md", "hello")
    folder.write("AGENTS.md", "Be brief.")
    (folder.project / ".dflash").mkdir()
    with FakeLlama([say("hello")]) as server:
        assert ASKED not in start(server, "hi").until(seen("hello"))
