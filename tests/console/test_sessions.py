"""`dflash-agent session` and the completion of a real shell, on journals as the product writes them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent.events import AssistantAdded, TurnEnded, TurnStarted
from agent.messages import AssistantMessage, UserMessage
from agent.store.archive import FileArchive

BIN = Path(sys.executable).parent


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def run(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"DFLASH_HOME": str(home), "PATH": f"{BIN}:{os.environ['PATH']}"}
    return subprocess.run(["dflash-agent", *arguments], env=env, cwd=home.parent, capture_output=True, text=True)


def a_session(home: Path, text: str = "About the sea.") -> str:
    journal = FileArchive(home / "state" / "sessions").create(home.parent)
    journal.append(TurnStarted(1, UserMessage("m1", text)))
    journal.append(AssistantAdded(1, AssistantMessage("m2", "It is \x1b[31mwide\x1b[0m.")))
    journal.append(TurnEnded(1, "done"))
    journal.close()
    return journal.session_id


def test_sessions_are_listed_shown_exported_and_deleted(home: Path) -> None:
    one = a_session(home)
    assert one in run(home, "session", "list").stdout
    assert [s["title"] for s in json.loads(run(home, "session", "list", "--json").stdout)["sessions"]] == [
        "About the sea."
    ]
    shown = run(home, "session", "show", one).stdout
    assert "## User\n\nAbout the sea." in shown and "\x1b" not in shown  # a terminal would obey it
    assert run(home, "session", "export", one, "s.md").returncode == 0
    assert "It is \x1b[31mwide" in (home.parent / "s.md").read_text()
    again = run(home, "session", "export", one, "s.md")
    assert again.returncode == 2 and "there already" in again.stderr
    gone = run(home, "session", "delete", one, "nope")
    assert f"Deleted session {one}." in gone.stderr and "No session 'nope'" in gone.stderr and gone.returncode == 2
    assert run(home, "session", "list").stdout == ""


def test_a_fork_needs_a_session(home: Path) -> None:
    done = run(home, "--fork", "-p", "hi")
    assert (done.returncode, done.stdout) == (2, "") and "use it with -c or -r" in done.stderr


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("dflash-agent ser", "server"),
        ("dflash-agent server st", "start,stop,status"),
        ("dflash-agent --permission-mode ac", "accept-edits"),
        ("dflash-agent session exp", "export"),
    ],
)
def test_a_shell_completes_what_is_written(home: Path, line: str, offered: str) -> None:
    script = f"""
        eval "$(dflash-agent completion bash)"
        COMP_LINE="{line}" COMP_POINT={len(line)} COMP_TYPE=63 COMP_WORDS=({line}) COMP_CWORD=1
        _python_argcomplete dflash-agent
        IFS=,; echo "${{COMPREPLY[*]}}"
    """
    env = os.environ | {"DFLASH_HOME": str(home), "PATH": f"{BIN}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], env=env, capture_output=True, text=True)
    assert sorted(w.strip() for w in done.stdout.strip().split(",")) == sorted(offered.split(","))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script(home: Path, shell: str) -> None:
    done = run(home, "completion", shell)
    assert done.returncode == 0 and "dflash-agent" in done.stdout
