"""/init and AGENTS.md as the whole product has them: each run is a real process, on projects made from templates."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent.model.encoding import o200k
from tests.fakes.llama import FakeLlama, Reply, calls, say

SKILLS = Path(__file__).parents[2] / "skills"


class Desk:
    def __init__(self, base: Path) -> None:
        self.home, self.project = base / "home", base / "project"
        for folder in (self.home, self.project / ".git"):
            folder.mkdir(parents=True)

    def template(self, skill: str, *arguments: str) -> None:
        subprocess.run(["sh", SKILLS / skill / "scripts" / "new.sh", *arguments], cwd=self.project, check=True)

    def ask(self, prompt: str, *replies: Reply, n_ctx: int = 32_768) -> tuple[FakeLlama, str]:
        """The server with what it was asked, and what stood on stderr."""
        env = {"PATH": os.environ["PATH"], "HOME": str(self.home), "DFLASH_HOME": str(self.home / "d")}
        with FakeLlama(list(replies), n_ctx=n_ctx) as server:
            argv = [sys.executable, "-P", "-m", "agent", "--server", server.url, "--ctx", str(n_ctx)]
            done = subprocess.run(
                [*argv, "--permission-mode", "auto", "-p", prompt],
                env=env,
                cwd=self.project,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=90,
            )
        assert done.returncode == 0, done.stderr
        return server, done.stderr


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def system_of(server: FakeLlama) -> str:
    return server.requests[-1]["messages"][0]["content"]


@pytest.mark.parametrize(
    ("template", "facts", "test"),
    [
        (
            ("scaffold-python", "word-tools"),
            ("pyproject.toml", "pytest", "ruff", "src/"),
            "python3 -m pytest --version",
        ),
        (("scaffold-web", "shop", "plain"), ("package.json", "node --test", "state.js"), "npm test"),
    ],
)
def test_init_tells_what_the_project_shows_and_the_next_session_has_what_was_written(
    desk: Desk, template: tuple[str, ...], facts: tuple[str, ...], test: str
) -> None:
    desk.template(*template)
    written = f"One sentence.\n\n## Commands\n\n- tests: `{test}`\n"
    server, _ = desk.ask(
        "/init mention the deadline",
        calls(("read", {"file": "README.md"}), ("bash", {"command": test})),
        calls(("write", {"file": "AGENTS.md", "text": written})),
        say("It holds the commands."),
    )
    order = server.requests[0]["messages"][-1]["content"]
    assert f"Write {desk.project / 'AGENTS.md'}: " in order and order.endswith("The user's words: mention the deadline")
    assert all(fact in order for fact in facts), order
    assert (desk.project / "AGENTS.md").read_text() == written
    again, _ = desk.ask("/init", say("nothing new"))
    assert written.strip() in system_of(again)
    assert "AGENTS.md exists: read it, keep what is true" in again.requests[0]["messages"][-1]["content"]


def test_at_most_32_kib_of_instructions_are_given_and_the_user_is_told_what_was_cut(desk: Desk) -> None:
    (desk.project / "AGENTS.md").write_text("x" * 40_000)
    server, told = desk.ask("hi", say("hello"), n_ctx=262_144)
    assert system_of(server).count("x" * 32_768) == 1 and "x" * 32_769 not in system_of(server)
    assert "[cut: all instructions together may have 32768 bytes]" in system_of(server)
    assert f"cut: {desk.project / 'AGENTS.md'}." in told


def test_instructions_take_at_most_a_quarter_of_a_small_context(desk: Desk) -> None:
    line = "Run `uv run pytest -x` before you commit; never touch `migrations/0042_ledger.py` (see ADR-17).\n"
    (desk.project / "AGENTS.md").write_text(line * 400)
    server, _ = desk.ask("hi", say("hello"), n_ctx=8192)
    system = system_of(server)
    assert 1000 < o200k()(system[system.index("# Instructions from") :]) <= 8192 / 4


def test_instructions_of_a_folder_below_come_with_the_first_file_that_is_read_there(desk: Desk) -> None:
    for name, text in (
        ("AGENTS.md", "top"),
        ("web/AGENTS.md", "use tabs in here"),
        ("web/a.js", "1"),
        ("web/b.js", "2"),
    ):
        (desk.project / name).parent.mkdir(exist_ok=True)
        (desk.project / name).write_text(text)
    read = [calls(("read", {"file": name})) for name in ("web/a.js", "web/b.js")]
    server, _ = desk.ask("look", *read, say("seen"))
    assert "use tabs" not in system_of(server)
    results = [m["content"] for m in server.requests[-1]["messages"] if m["role"] == "tool"]
    assert "use tabs in here" in results[0] and "use tabs" not in results[1]
