"""A scriptable MCP server of the handshake era, to inject the faults that real ones have: over stdio when run with a
JSON script, over HTTP as `HttpServer`.

Keys of a script, all optional: log (a file; one JSON object for each start, list and call), tools, results {tool:
result}, init_delay (s), gate (a named pipe: it greets once somebody opens that), exit_at_start [status, text], die
{tool: [status, text]}, silent [tools], progress {tool: times}, junk (text on stdout), stubborn (outlives a closed stdin
and TERM), child (starts a process that outlives it), becomes {tool: tools} (calling it changes the list), prompts (each
says its arguments), prompts_become {tool: prompts}, resources {uri: contents}, elicit {tool: params}, wants_pages
{tool: pages of each call that is refused}, pages (size of a page), greeting (added to the answer of initialize).
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

EMPTY = {"type": "object", "properties": {}}


def tool(name: str, description: str = "does something", **more: Any) -> dict[str, Any]:
    return {"name": name, "description": description, "inputSchema": EMPTY, **more}


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": said}], **more}


def script(folder: Path, name: str, **what: Any) -> dict[str, Any]:
    """A configuration entry that runs this file with such a script."""
    file = folder / f"{name}.script.json"
    file.write_text(json.dumps({"log": str(folder / f"{name}.log"), **what}))
    return {"command": sys.executable, "args": [str(Path(__file__).resolve()), str(file)]}


def happened(folder: Path, name: str, what: str) -> list[dict[str, Any]]:
    file = folder / f"{name}.log"
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return [line for line in lines if line["what"] == what]


class Stdio:
    def __init__(self, script: dict[str, Any]) -> None:
        self.script = script
        self.lock = threading.Lock()
        self.answers: dict[Any, Any] = {}
        self.answered = threading.Event()

    def note(self, what: str, **more: Any) -> None:
        if file := self.script.get("log"):
            with self.lock, open(file, "a") as out:
                out.write(json.dumps({"what": what, **more}) + "\n")

    def send(self, message: dict[str, Any]) -> None:
        with self.lock:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            sys.stdout.flush()

    def run(self) -> None:
        script = self.script
        self.note("start")
        if script.get("stubborn"):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if script.get("child"):
            subprocess.Popen(["sleep", "300"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if "exit_at_start" in script:
            self.end(*script["exit_at_start"])
        if "junk" in script:
            print(script["junk"], flush=True)
        for line in sys.stdin:
            message = json.loads(line)
            if "method" not in message:
                self.answers[message.get("id")] = message.get("result", message.get("error"))
                self.answered.set()
            elif "id" in message:
                threading.Thread(target=self.answer, args=(message,), daemon=True).start()
            else:
                self.note("notified", method=message["method"])
        if script.get("stubborn"):
            time.sleep(300)

    def end(self, status: int, words: str) -> None:
        print(words, file=sys.stderr, flush=True)
        import os

        os._exit(status)

    def answer(self, message: dict[str, Any]) -> None:
        method, params, number = message["method"], message.get("params") or {}, message["id"]
        if method == "initialize":
            time.sleep(self.script.get("init_delay", 0))
            if gate := self.script.get("gate"):
                with open(gate):
                    pass
            offers: dict[str, Any] = {"tools": {"listChanged": True}}
            offers |= {kind: {"listChanged": True} for kind in ("prompts", "resources") if kind in self.script}
            result: Any = {"protocolVersion": params["protocolVersion"], "capabilities": offers}
            result |= {"serverInfo": {"name": "fake", "version": "1"}, **self.script.get("greeting", {})}
        elif method == "tools/list":
            self.note("list")
            result = self.page(params.get("cursor"))
        elif method == "prompts/list":
            result = {"prompts": self.script["prompts"]}
        elif method == "prompts/get":
            said = {"type": "text", "text": json.dumps(params.get("arguments"))}
            result = {"messages": [{"role": "user", "content": said}]}
        elif method == "resources/read" and params["uri"] in self.script["resources"]:
            result = {"contents": self.script["resources"][params["uri"]]}
        elif method == "tools/call":
            if waiting := self.script.get("wants_pages", {}).get(params["name"]):
                error = {"code": -32042, "message": "a page first", "data": {"elicitations": waiting.pop(0)}}
                self.send({"id": number, "error": error})
                return
            result = self.call(params, number)
            if result is None:
                return
        else:
            self.send({"id": number, "error": {"code": -32601, "message": f"Method not found: {method}"}})
            return
        self.send({"id": number, "result": result})

    def page(self, cursor: str | None) -> dict[str, Any]:
        tools = self.script.get("tools", [])
        size, start = self.script.get("pages", len(tools) or 1), int(cursor or 0)
        more = {"nextCursor": str(start + size)} if start + size < len(tools) else {}
        return {"tools": tools[start : start + size], **more}

    def call(self, params: dict[str, Any], number: Any) -> dict[str, Any] | None:
        name, script = params["name"], self.script
        self.note("call", tool=name, arguments=params.get("arguments"))
        if name in script.get("die", {}):
            self.end(*script["die"][name])
        if name in script.get("silent", []):
            return None
        for step in range(script.get("progress", {}).get(name, 0)):
            token = params["_meta"]["progressToken"]
            self.send({"method": "notifications/progress", "params": {"progressToken": token, "progress": step + 1}})
        if name in script.get("becomes", {}):
            script["tools"] = script["becomes"][name]
            self.send({"method": "notifications/tools/list_changed"})
        if name in script.get("prompts_become", {}):
            script["prompts"] = script["prompts_become"][name]
            self.send({"method": "notifications/prompts/list_changed"})
        if name in script.get("elicit", {}):
            self.send({"id": "ask", "method": "elicitation/create", "params": script["elicit"][name]})
            self.answered.wait(20)
            return text(json.dumps(self.answers.get("ask")))
        return script.get("results", {}).get(name, text(f"{name} was called"))


class HttpServer:
    """Streamable HTTP. `rule(server, method, params, session)` may answer instead: (status, headers, body), or "drop"
    to close the connection without a word. Sessions that are not in `sessions` get 404."""

    def __init__(self, tools: list[dict[str, Any]], rule: Callable[..., Any] | None = None) -> None:
        self.tools, self.rule = tools, rule
        self.sessions: set[str] = set()
        self.seen: list[str] = []
        self.calls: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def start(self) -> None:
        class Server(ThreadingHTTPServer):
            daemon_threads, block_on_close, allow_reuse_address = True, False, True
            owner = self

            def handle_error(self, *_: Any) -> None:
                pass

        self._http = Server(("127.0.0.1", self.port), _Handler)
        self.port = self._http.server_address[1]
        threading.Thread(target=self._http.serve_forever, args=(0.03,), daemon=True).start()

    def stop(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def result(self, method: str, params: dict[str, Any]) -> Any:
        if method == "initialize":
            offers = {"tools": {"listChanged": True}}
            info = {"serverInfo": {"name": "web", "version": "1"}}
            return {"protocolVersion": params["protocolVersion"], "capabilities": offers, **info}
        if method == "tools/list":
            return {"tools": self.tools}
        if method == "tools/call":
            self.calls.append(params["name"])
            return text(f"{params['name']} was called")
        return None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Any

    def log_message(self, *_: Any) -> None:
        pass

    def reply(self, status: int, headers: dict[str, str] | None = None, body: bytes = b"") -> None:
        self.send_response(status)
        given = {"Content-Type": "application/json", **(headers or {}), "Content-Length": str(len(body))}
        for name, value in given.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.reply(405)

    def do_DELETE(self) -> None:
        self.reply(200)

    def do_POST(self) -> None:
        owner: HttpServer = self.server.owner
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method, params = message.get("method", ""), message.get("params") or {}
        session = self.headers.get("mcp-session-id")
        owner.seen.append(method)
        owner.headers.append(dict(self.headers))
        taken = owner.rule(owner, method, params, session) if owner.rule else None
        if taken == "drop":
            self.close_connection = True
            return
        if taken:
            return self.reply(*taken)
        if method == "initialize":
            session = f"S{sum(m == 'initialize' for m in owner.seen)}"
            owner.sessions.add(session)
        elif session not in owner.sessions:
            return self.reply(404 if session else 400, body=b"{}")
        if "id" not in message:
            return self.reply(202)
        result = owner.result(method, params)
        answer = {"error": {"code": -32601, "message": "no"}} if result is None else {"result": result}
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}).encode()
        self.reply(200, {"Mcp-Session-Id": session or ""}, body)


if __name__ == "__main__":
    Stdio(json.loads(Path(sys.argv[1]).read_text())).run()
