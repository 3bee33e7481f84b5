"""A server of one's own: written, started, called, changed, called again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from agent.errors import ConfigError
from agent.tools.mcp.workshop import write_server
from tests.tools.mcp.conftest import MakePool, call, kind, until


@pytest.fixture(autouse=True)
def interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DFLASH_PYTHON", sys.executable)


async def test_a_new_server_works_at_once_and_a_saved_change_counts_without_a_restart(
    pools: MakePool, tmp_path: Path
) -> None:
    pool = pools({})
    assert not pool.reachable
    file, state = await pool.new("weather")
    assert state.kind == "ready" and [t.qualified for t in state.tools] == ["mcp__weather__count_words"]
    pool.notes()
    assert (await call(pool, "mcp__weather__count_words", {"text": "a b c"})).text == "3"
    assert json.loads((tmp_path / ".mcp.json").read_text())["mcpServers"]["weather"]["reload"] is True

    server = Path(file)
    works = server.read_text()
    server.write_text("raise SystemExit('half written')")
    await until(lambda: kind(pool, "weather") == "failed")
    assert "half written" in pool.states()[0].words
    server.write_text(works.replace("count_words", "count_all").replace("len(text.split())", "len(text)"))
    await until(lambda: kind(pool, "weather") == "ready")
    assert "mcp__weather__count_all" in (notes := pool.notes()) and "gone: mcp__weather__count_words" in notes
    assert (await call(pool, "mcp__weather__count_all", {"text": "abcd"})).text == "4"


async def test_the_conversation_after_a_new_server_has_its_tools(pools: MakePool) -> None:
    pool = pools({})
    await pool.new("weather")
    listed, reach = pool.open_conversation()
    assert pool.reachable and len(listed) == 1 and [t.name for t in reach] == ["mcp_find", "mcp_call"]


def test_the_tests_that_come_with_a_new_server_pass(tmp_path: Path) -> None:
    file, _ = write_server(tmp_path, "weather")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file.parent)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout


@pytest.mark.parametrize("name", ["", "Weather", "../x", "1st", "a b", "x" * 60])
async def test_a_bad_name_writes_nothing(pools: MakePool, tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="no good name"):
        await pools({}).new(name)
    assert not (tmp_path / "mcp-servers").exists() and not (tmp_path / ".mcp.json").exists()


async def test_what_is_there_stays(pools: MakePool, tmp_path: Path) -> None:
    pool = pools({})
    await pool.new("weather")
    with pytest.raises(ConfigError, match="already"):
        await pool.new("weather")
    with pytest.raises(ConfigError, match="is there already"):
        write_server(tmp_path, "weather")
