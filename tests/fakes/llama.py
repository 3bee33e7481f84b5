"""A scriptable llama-server on a real loopback socket, in threads, so that a test may block on a process meanwhile.

A reply is a list of steps, one reply for each chat request:

    {"data": {...}}      one SSE event          {"raw": b"..."}   bytes as they are
    {"hold": True}       set `held`, then wait until the client leaves (sets `disconnected`) or the server closes
    {"close": "reset"}   end the connection     {"status": 500, "json": {...}, "body": "..."}   a plain HTTP answer
"""

from __future__ import annotations

import itertools
import json
import re
import select
import socket
import struct
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

Reply: TypeAlias = list[dict[str, Any]]
_ids = itertools.count(1)


def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {
        "data": {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    }


def opening() -> Reply:
    progress = {"total": 40, "cache": 10, "processed": 40, "time_ms": 12.5}
    return [chunk({"role": "assistant", "content": None}), {"data": {"choices": [], "prompt_progress": progress}}]


def ending(reason: str, generated: int = 8) -> Reply:
    timings = {
        **{"cache_n": 10, "prompt_n": 30, "prompt_ms": 12.5, "predicted_n": generated, "predicted_ms": 40.0},
        **{"predicted_per_second": 200.0, "draft_n": 6, "draft_n_accepted": 3},
    }
    details = {"prompt_tokens_details": {"cached_tokens": 10}}
    usage = {"prompt_tokens": 40, "completion_tokens": generated, "total_tokens": 40 + generated, **details}
    return [
        chunk({}, reason),
        {"data": {"choices": [], "usage": usage, "timings": timings}},
        {"raw": b"data: [DONE]\n\n"},
    ]


def say(text: str, *, hold: bool = False, think: str = "", finish: str = "stop") -> Reply:
    thoughts = [chunk({"reasoning_content": piece}) for piece in re.findall(r"\S+\s*|\s+", think)]
    words = [chunk({"content": piece}) for piece in re.findall(r"\S+\s*|\s+", text)]
    return [*opening(), *thoughts, *words, *([{"hold": True}] if hold else ending(finish))]


def calls(*pairs: tuple[str, dict[str, Any]], text: str = "", finish: str = "tool_calls") -> Reply:
    deltas: list[dict[str, Any]] = [{"content": text}] if text else []
    for index, (name, arguments) in enumerate(pairs):
        head = {
            "index": index,
            "id": f"call_{next(_ids)}",
            "type": "function",
            "function": {"name": name, "arguments": ""},
        }
        deltas.append({"tool_calls": [head]})
        raw = json.dumps(arguments, ensure_ascii=False)
        for at in range(0, len(raw), 7):
            deltas.append({"tool_calls": [{"index": index, "function": {"arguments": raw[at : at + 7]}}]})
    return [*opening(), *(chunk(d) for d in deltas), *ending(finish)]


def call(name: str, **arguments: Any) -> Reply:
    return calls((name, arguments))


def error(status: int, message: str, kind: str = "server_error", **more: Any) -> Reply:
    return [{"status": status, "json": {"error": {"code": status, "message": message, "type": kind, **more}}}]


def illegal(messages: list[dict[str, Any]]) -> str:
    """What a real server, or a template of a real model, would refuse; empty when it is legal."""
    waiting: list[str] = []
    before, known = "", set[str]()
    for message in messages:
        role, made = message["role"], message.get("tool_calls") or []
        if role == "tool":
            if message["tool_call_id"] not in waiting:
                return "a tool message without its call"
            waiting.remove(message["tool_call_id"])
        elif waiting:
            return "a call without its result"
        elif role == before and role in ("user", "assistant"):
            return f"two {role} messages in a row"
        if role == "assistant" and not (message["content"].strip() or made):
            return "an empty assistant message"
        for call in made:
            if not call["id"] or call["id"] in known:
                return "a call id that is empty or not unique"
            if not isinstance(json.loads(call["function"]["arguments"]), dict):
                return "arguments that are no object"
            known.add(call["id"])
            waiting.append(call["id"])
        before = role
    return (
        "a call without its result" if waiting else "" if before != "assistant" else "an assistant message at the end"
    )


class FakeLlama(ThreadingHTTPServer):
    """Use as a context manager. `requests`: the JSON bodies of chat requests, in order; `looks`: the paths of all other
    ones. `busy`: what /slots says. `strict`: a history that breaks a rule of real servers is refused with 400."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(
        self,
        replies: list[Reply] | None = None,
        *,
        n_ctx: int = 8192,
        model: str = "fake-31b",
        busy: bool = False,
        strict: bool = False,
        port: int = 0,
    ) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.replies = list(replies or [])
        self.n_ctx, self.model, self.busy, self.strict = n_ctx, model, busy, strict
        self.looks: list[str] = []
        self.counts = False  # tokens of a request, when asked
        self.metrics: list[str] = []  # pages of /metrics, one for each look; with them it is no llama-server
        self.requests: list[dict[str, Any]] = []
        self.headers_seen: list[dict[str, str]] = []
        self.held = threading.Event()
        self.disconnected = threading.Event()
        self.closing = threading.Event()
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def size(self, body: dict[str, Any]) -> int:
        """Tokens of a request: a quarter of its characters."""
        return len(json.dumps([body["messages"], body.get("tools")])) // 4

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> FakeLlama:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        if isinstance(sys.exception(), ConnectionError):
            self.disconnected.set()  # a client that goes away in the middle of an answer is part of many tests


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FakeLlama

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        path = self.path.split("?")[0].removeprefix("/v1")
        self.server.looks.append(path)
        if self.server.metrics and path in ("/metrics", "/props", "/slots"):
            page = self.server.metrics.pop(0) if path == "/metrics" else None
            self._plain(404 if page is None else 200, None, page or "not here")
            return
        settings = {"n_ctx": self.server.n_ctx, "params": {}}
        answers: dict[str, Any] = {
            "/health": {"status": "ok"},
            "/models": {"object": "list", "data": [{"id": self.server.model, "object": "model"}]},
            "/props": {"default_generation_settings": settings, "model_path": "/m.gguf", "build_info": "b1-fake"},
            "/slots": [{"id": 0, "n_ctx": self.server.n_ctx, "speculative": True, "is_processing": self.server.busy}],
        }
        self._plain(200, answers[path]) if path in answers else self._plain(404, {"error": {"message": "not found"}})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.path.endswith("/chat/completions"):
            tokens = {"input_tokens": self.server.size(body)}
            counted = self.server.counts and self.path.endswith("/input_tokens")
            self._plain(200, tokens) if counted else self._plain(404, {"error": {"message": "not found"}})
            return
        self.server.requests.append(body)
        self.server.headers_seen.append(dict(self.headers.items()))
        if self.server.strict and (wrong := illegal(body["messages"])):
            self._plain(400, {"error": {"code": 400, "message": wrong, "type": "invalid_request_error"}})
            return
        reply = self.server.replies.pop(0) if self.server.replies else say("nothing more to say")
        if reply and "status" in reply[0]:
            self._plain(reply[0]["status"], reply[0].get("json"), reply[0].get("body"))
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        for step in reply:
            if "data" in step:
                self.wfile.write(b"data: " + json.dumps(step["data"], ensure_ascii=False).encode() + b"\n\n")
            elif "raw" in step:
                self.wfile.write(step["raw"])
            elif step.get("hold"):
                self._hold()
                return
            elif step.get("close") == "reset":
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.rfile.close()
                self.connection.close()
                return
            self.wfile.flush()

    def _hold(self) -> None:
        self.wfile.flush()
        self.server.held.set()
        while not self.server.closing.is_set():
            if select.select([self.connection], [], [], 0.05)[0] and not self.connection.recv(1, socket.MSG_PEEK):
                self.server.disconnected.set()
                return

    def _plain(self, status: int, data: Any, body: str | None = None) -> None:
        raw = body.encode() if body is not None else json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html" if body is not None else "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)
