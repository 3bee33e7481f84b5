"""Mentions and prompts of MCP servers without a screen: real processes of the console script."""

from __future__ import annotations

import json
from pathlib import Path

from tests.fakes.llama import FakeLlama, say
from tests.test_cli import run


def everything(servers: Path) -> str:
    node, server = servers / "bin" / "node", servers / "node_modules" / ".bin" / "mcp-server-everything"
    return json.dumps({"mcpServers": {"all": {"command": str(node), "args": [str(server), "stdio"]}}})


def test_a_prompt_without_a_screen_may_mention_files_and_resources(tmp_path: Path, servers: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "x.py").write_text("answer = 42\n")
    words = "look at @src/x.py, @all:demo://resource/dynamic/text/2 and @src/y.py"
    with FakeLlama([say("Seen.")]) as server:
        done = run(tmp_path, "--server", server.url, "--mcp-config", everything(servers), "-p", words)
        got = server.requests[0]["messages"][-1]["content"]
    assert (done.returncode, done.stdout) == (0, "Seen.\n")
    assert "There is nothing named src/y.py." in done.stderr and "Went with the message: src/x.py, all:" in done.stderr
    assert got.startswith(f"{words}\n\n[The user mentions src/x.py. It holds:]\n    1\tanswer = 42")
    assert "Resource 2: This is a plaintext" in got


def test_a_prompt_of_a_server_runs_without_a_screen(tmp_path: Path, servers: Path) -> None:
    with FakeLlama([say("Sunny.")]) as server:
        flags = ("--server", server.url, "--mcp-config", everything(servers))
        done = run(tmp_path, *flags, "-p", "/mcp__all__args-prompt Rome")
        assert (done.returncode, done.stdout) == (0, "Sunny.\n"), done.stderr
        assert server.requests[0]["messages"][-1]["content"].startswith("What's weather in Rome?")
        for line, says in (("args-prompt", "needs city"), ("nothing", "There is no command /mcp__all__nothing")):
            done = run(tmp_path, *flags, "-p", f"/mcp__all__{line}")
            assert done.returncode in (1, 2) and says in done.stderr and "Traceback" not in done.stderr
        assert len(server.requests) == 1
