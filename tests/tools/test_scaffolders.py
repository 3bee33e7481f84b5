"""Projects from scratch through the tool, as a model does it: the real scaffolders, from the real registries."""

from __future__ import annotations

import re
import sys
import urllib.request

import pytest

from tests.tools.conftest import Bench
from tests.tools.test_background import free_port

pytestmark = [pytest.mark.indexes, pytest.mark.timeout(400)]
SLOW = 300  # seconds; a registry may be slow


async def serves(bench: Bench, command: str, port: int, has: str) -> None:
    """Started in the foreground, handed back with its port, answered, listed, read and stopped."""
    text = await bench.text(command, SLOW)
    assert "since it listens on a port" in text and f"listening on {port}" in text
    number = re.findall(r"listens on a port: (\d+) ", text)[0]
    page = f"curl -fsS http://127.0.0.1:{port}/"
    text = await bench.text(page)
    assert has in text and "[exit status 0]" in text
    assert [p.ports for p in bench.book.list()] == [(port,)]
    assert f"listening on {port}" in await bench.process("list")
    assert f"[running: {number} (" in await bench.process("read", number)
    assert f"Stopped {number} (" in await bench.process("stop", number)
    with pytest.raises(OSError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5)


async def test_vite_asks_is_answered_and_its_server_runs(bench: Bench) -> None:
    text = await bench.text("npm create vite@latest web -- --template vanilla", SLOW)
    while "waits for input" in text:  # which questions come is the scaffolder's affair
        text = await bench.process("write", "1", text="n")
    assert "Done" in text and "exit status 0" in text
    text = await bench.text("cd web && npm install", SLOW)
    assert "[exit status 0]" in text and "\x1b" not in text and len(text) < 4000
    port = free_port(24_000)
    await serves(bench, f"npm run dev -- --host 127.0.0.1 --port {port}", port, "/src/main")
    assert "built in" in await bench.text("npm run build", SLOW)


async def test_npm_init_asks_nothing(bench: Bench) -> None:
    assert "[exit status 0]" in await bench.text("npm init", SLOW)
    assert (bench.root / "package.json").exists()


async def test_a_virtual_environment_and_a_django_site(bench: Bench) -> None:
    assert await bench.text(f"{sys.executable} -m venv .venv && . .venv/bin/activate", SLOW) == "[exit status 0]"
    text = await bench.text("pip install django", SLOW)
    assert "Successfully installed" in text and "[exit status 0]" in text and len(text) < 6000
    assert await bench.text("django-admin startproject site1 . && python manage.py migrate | tail -1", SLOW) != ""
    assert (bench.root / "manage.py").exists() and (bench.root / "db.sqlite3").exists()
    port = free_port(26_000)
    await serves(bench, f"python manage.py runserver 127.0.0.1:{port}", port, "The install worked successfully")


async def test_uv_makes_a_project_and_runs_it(bench: Bench) -> None:
    await bench.bash(f"{sys.executable} -m venv .tools && export PATH=$PWD/.tools/bin:$PATH", SLOW)
    assert "[exit status 0]" in await bench.text("pip install -q uv", SLOW)
    assert "[exit status 0]" in await bench.text(f"uv init --python {sys.executable} app && cd app", SLOW)
    text = await bench.text("uv run app", SLOW)
    assert "Hello from app!" in text and "[exit status 0]" in text


async def test_git_from_nothing_to_a_commit(bench: Bench) -> None:
    await bench.bash("git init && git config user.name n && git config user.email e@x.invalid; echo a > a; git add .")
    assert "no-editor-here" in await bench.text("git commit")
    assert "1 file changed" in await bench.text("git commit -m 'first'")
    await bench.bash("git checkout -q -b b && echo b >> a && git commit -qam b && git checkout -q - && touch c")
    await bench.bash("git add c && git commit -qm c")
    assert "Merge made" in await bench.text("git merge b")  # it would open an editor
    assert len((await bench.text("git log --oneline")).splitlines()) == 5
