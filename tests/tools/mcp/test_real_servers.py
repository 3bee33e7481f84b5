"""The reference servers of both languages and both eras of the protocol, as their makers ship them."""

from __future__ import annotations

import asyncio
import os
import subprocess
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import jsonschema
import pytest

from agent.tools.mcp.host import Elicitation, Elicited
from agent.tools.mcp.sample import sample
from tests.tools.mcp.conftest import MakePool, call, kind, until


def python_server(servers: Path, name: str, *args: str, **more: Any) -> dict[str, Any]:
    return {"command": str(servers / "bin" / name), "args": list(args), **more}


def node_server(servers: Path, name: str, *args: str, **more: Any) -> dict[str, Any]:
    node = str(servers / "bin" / "node")
    return {"command": node, "args": [str(servers / "node_modules" / ".bin" / name), *args], **more}


async def ready(pool: Any, name: str) -> Any:
    await until(lambda: kind(pool, name) != "starting", 60)
    state = next(s for s in pool.states() if s.name == name)
    assert state.kind == "ready", state
    pool.notes()
    return state


@pytest.mark.parametrize(("protocol", "era"), [("auto", "2025-11-25"), ("2026-07-28", "2026-07-28")])
async def test_time_in_both_eras(pools: MakePool, servers: Path, protocol: str, era: str) -> None:
    pool = pools({"time": python_server(servers, "mcp-server-time", protocol=protocol)})
    state = await ready(pool, "time")
    assert state.era == era and [t.name for t in state.tools] == ["get_current_time", "convert_time"]
    output = await call(pool, "mcp__time__get_current_time", {"timezone": "Asia/Tokyo"})
    assert not output.failed and output.text.count("Asia/Tokyo") == 1
    wrong = await call(pool, "mcp__time__get_current_time", {"timezone": "Nowhere"})
    assert wrong.failed and "Nowhere" in wrong.text


@pytest.mark.parametrize("protocol", ["legacy", "2026-07-28"])
async def test_git_in_both_eras(pools: MakePool, servers: Path, tmp_path: Path, protocol: str) -> None:
    repository = tmp_path / "repository"
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    (repository / "new.txt").write_text("x")
    pool = pools({"git": python_server(servers, "mcp-server-git", protocol=protocol)})
    state = await ready(pool, "git")
    assert "read-only" in next(t for t in state.tools if t.name == "git_status").hints
    output = await call(pool, "mcp__git__git_status", {"repo_path": str(repository)})
    assert not output.failed and "new.txt" in output.text


async def test_fetch_of_a_local_page(pools: MakePool, servers: Path) -> None:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b"<html><body><h1>Hello</h1><p>from the page</p></body></html>" if self.path == "/" else b""
            self.send_response(200 if body else 404)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    Thread(target=http.serve_forever, daemon=True).start()
    try:
        pool = pools(
            {"fetch": python_server(servers, "mcp-server-fetch", "--ignore-robots-txt", "--allow-private-ips")}
        )
        await ready(pool, "fetch")
        output = await call(pool, "mcp__fetch__fetch", {"url": f"http://127.0.0.1:{http.server_address[1]}/"})
        assert not output.failed and "from the page" in output.text
    finally:
        http.shutdown()
        http.server_close()


async def test_filesystem_asks_for_roots_and_gets_the_project(pools: MakePool, servers: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("content of a")
    (tmp_path / "elsewhere").mkdir()
    pool = pools({"files": node_server(servers, "mcp-server-filesystem", str(tmp_path / "elsewhere"))})
    await ready(pool, "files")
    async with asyncio.timeout(10):  # it asks for the roots after the greeting
        while True:
            output = await call(pool, "mcp__files__read_text_file", {"path": str(tmp_path / "a.txt")})
            if not output.failed:
                break
    assert "content of a" in output.text


async def test_memory_keeps_what_it_is_told(pools: MakePool, servers: Path, tmp_path: Path) -> None:
    env = {"MEMORY_FILE_PATH": str(tmp_path / "memory.jsonl")}
    pool = pools({"memory": node_server(servers, "mcp-server-memory", env=env)})
    await ready(pool, "memory")
    entity = {"name": "DFlash", "entityType": "engine", "observations": ["drafts in blocks"]}
    assert not (await call(pool, "mcp__memory__create_entities", {"entities": [entity]})).failed
    output = await call(pool, "mcp__memory__search_nodes", {"query": "DFlash"})
    assert output.text.count("drafts in blocks") == 1


async def test_everything_progress_images_links_structure_and_cancel(pools: MakePool, servers: Path) -> None:
    pool = pools({"all": node_server(servers, "mcp-server-everything", "stdio")})
    await ready(pool, "all")
    image = await call(pool, "mcp__all__get-tiny-image")
    files = [word.rstrip("]") for word in image.text.split() if word.endswith(".png]")]
    assert files and Path(files[0]).read_bytes().startswith(b"\x89PNG")
    assert "[resource" in (await call(pool, "mcp__all__get-resource-links", {"count": 2})).text
    structured = await call(pool, "mcp__all__get-structured-content", {"location": "Chicago"})
    assert structured.text.count("humidity") == 1

    from agent.protocols import ToolContext

    heard: list[str] = []
    long = pool.tool("mcp__all__trigger-long-running-operation")
    assert long is not None
    params = long.params.model_validate({"duration": 1, "steps": 4})
    await long.run(params, ToolContext("c", long.plan(params), heard.append))
    assert any("/4" in text for text in heard)
    running = asyncio.create_task(call(pool, "mcp__all__trigger-long-running-operation", {"duration": 60, "steps": 2}))
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait([running])
    assert not (await call(pool, "mcp__all__echo", {"message": "still here"})).failed


async def test_everything_asks_the_user_for_a_form(pools: MakePool, servers: Path) -> None:
    asked: list[Elicitation] = []

    async def answer(wish: Elicitation) -> Elicited:
        asked.append(wish)
        return Elicited("accept", {"name": "Ada", "check": True, "email": "ada@example.com"})

    pool = pools({"all": node_server(servers, "mcp-server-everything", "stdio")}, elicit=answer)
    await ready(pool, "all")
    output = await call(pool, "mcp__all__trigger-elicitation-request")
    assert asked[0].server == "all" and "name" in asked[0].schema["properties"]
    assert "Ada" in output.text


async def test_generated_arguments_fit_the_schemas_of_all_real_tools(
    pools: MakePool, servers: Path, tmp_path: Path
) -> None:
    pool = pools(
        {
            "git": python_server(servers, "mcp-server-git"),
            "time": python_server(servers, "mcp-server-time"),
            "fetch": python_server(servers, "mcp-server-fetch"),
            "all": node_server(servers, "mcp-server-everything", "stdio"),
            "files": node_server(servers, "mcp-server-filesystem", str(tmp_path)),
            "memory": node_server(servers, "mcp-server-memory"),
        }
    )
    for name in ("git", "time", "fetch", "all", "files", "memory"):
        await ready(pool, name)
    tools = [t for server in pool._servers.values() if server.catalogue for t in server.catalogue.tools]
    assert len(tools) > 45
    for tool in tools:
        jsonschema.validate(sample(tool.schema), dict(tool.schema))
    assert os.environ["HOME"]
