#!/usr/bin/env python3
"""A faulty llama-server: a program that behaves as `faults.json` beside it says. Keys, all optional:

    say            lines printed at the start            flood          so many lines more
    exit           status to end with after that         signal         signal to end by
    fits           largest --ctx-size; above it the start ends like one without memory
    loading        requests to /health answered 503      stuck          loading never ends, and nothing moves
    text           the words of each reply               unlike         another model path in /props
    drafted        drafted tokens of the first and of every later reply; accepted: the share of them
    speculative    what /slots says                      chat           [status, words] in place of each reply
    dies_at        number of the chat request at which the process aborts, with `last` as its last words
    grows          MiB of memory that each chat request after the checks leaves behind
    wedged_at      number of the chat request from which on /slots and chat hang
    with_draft     the same keys, for a start with --spec-draft-model; first: for the first start

Each start adds its argv to `starts.jsonl`; each chat request its body to `requests.jsonl`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
OUT_OF_MEMORY = (
    "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 9999.00 MiB on device 0: cudaMalloc failed: out of memory"
)


def note(name: str, data: Any) -> None:
    with (HERE / name).open("a") as file:
        file.write(json.dumps(data) + "\n")


def value_of(argv: list[str], flag: str, default: str = "") -> str:
    return argv[argv.index(flag) + 1] if flag in argv else default


def main(argv: list[str]) -> None:
    if argv[:1] == ["--version"]:
        print("version: 11434 (fake)")
    elif argv[:1] == ["--help"]:
        print((HERE / "help.txt").read_text())
    elif argv[:1] == ["--list-devices"]:
        print("Available devices:")
    else:
        serve(argv)


def serve(argv: list[str]) -> None:
    faults: dict[str, Any] = json.loads((HERE / "faults.json").read_text())
    if "--spec-draft-model" in argv:
        faults |= faults.get("with_draft", {})
    if not (HERE / "starts.jsonl").exists():
        faults |= faults.get("first", {})
    note("starts.jsonl", argv)
    for line in faults.get("say", []):
        print(line, flush=True)
    for number in range(faults.get("flood", 0)):
        print(f"flood {number} " + "x" * 200)
    sys.stdout.flush()
    if int(value_of(argv, "--ctx-size")) > faults.get("fits", 1 << 30):
        print(OUT_OF_MEMORY, flush=True)
        sys.exit(1)
    if "exit" in faults:
        sys.exit(faults["exit"])
    if "signal" in faults:
        os.kill(os.getpid(), faults["signal"])
    server = Engine(("127.0.0.1", int(value_of(argv, "--port"))), Handler)
    server.faults, server.argv = faults, argv
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    server.serve_forever()


class Engine(ThreadingHTTPServer):
    daemon_threads = True
    faults: dict[str, Any]
    argv: list[str]

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.looks = self.chats = 0
        self.kept: list[bytes] = []
        self.one = threading.Lock()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Engine

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def send(self, status: int, data: Any) -> None:
        body = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def allowed(self) -> bool:
        if self.headers.get("Authorization") == f"Bearer {os.environ.get('LLAMA_API_KEY')}":
            return True
        self.send(401, {"error": {"code": 401, "message": "Invalid API Key", "type": "authentication_error"}})
        return False

    def wedged(self) -> bool:
        return self.server.chats >= self.server.faults.get("wedged_at", 1 << 30)

    def do_GET(self) -> None:
        faults, argv, path = self.server.faults, self.server.argv, self.path.split("?")[0]
        if path == "/health":
            self.server.looks += 1
            loading = faults.get("stuck") or self.server.looks <= faults.get("loading", 0)
            self.send(503, {"error": {"message": "Loading model", "code": 503}}) if loading else self.send(200, {})
            return
        if not self.allowed():
            return
        if path == "/slots" and self.wedged():
            time.sleep(1000)
        ctx = int(value_of(argv, "--ctx-size"))
        speculative = faults.get("speculative", "--spec-type" in argv)
        answers: dict[str, Any] = {
            "/v1/models": {"object": "list", "data": [{"id": "fake", "object": "model"}]},
            "/props": {
                "model_path": faults.get("unlike", value_of(argv, "--model")),
                "default_generation_settings": {"n_ctx": ctx},
                "build_info": "b11434-fake",
            },
            "/slots": [{"id": 0, "n_ctx": ctx, "speculative": speculative, "is_processing": False}],
        }
        self.send(200, answers[path]) if path in answers else self.send(404, {})

    def do_POST(self) -> None:
        faults = self.server.faults
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.allowed():
            return
        with self.server.one:
            self.server.chats += 1
            number = self.server.chats
        note("requests.jsonl", body)
        if number >= faults.get("dies_at", 1 << 30):
            print(faults.get("last", "ggml.c:1: GGML_ASSERT(ne == 4) failed"), flush=True)
            os.abort()
        if self.wedged():
            time.sleep(1000)
        if number > 2:
            self.server.kept.append(b"x" * (faults.get("grows", 0) << 20))
        if "chat" in faults:
            status, words = faults["chat"]
            self.send(status, {"error": {"message": words, "code": status, "type": "server_error"}})
            return
        self.reply(body, number)

    def reply(self, body: dict[str, Any], number: int) -> None:
        faults = self.server.faults
        text = faults.get("text", "def fibonacci(n):\n    return [n]")
        drafts = faults.get("drafted", [32, 32] if "--spec-type" in self.server.argv else [0, 0])
        drafted = drafts[0 if number == 1 else 1]
        timings: dict[str, Any] = {"cache_n": 0 if number == 1 else 20, "prompt_n": 20, "predicted_n": 40}
        timings |= {"predicted_ms": 400.0, "predicted_per_second": 100.0}
        if drafted:
            timings |= {"draft_n": drafted, "draft_n_accepted": int(drafted * faults.get("accepted", 0.5))}
        usage = {"prompt_tokens": 20, "completion_tokens": 40, "total_tokens": 60}
        if not body.get("stream"):
            message = {"role": "assistant", "content": text}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            self.send(200, {"choices": [choice], "usage": usage, "timings": timings})
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        for data in (
            {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
            {"choices": [], "usage": usage, "timings": timings},
        ):
            self.wfile.write(f"data: {json.dumps(data)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")


if __name__ == "__main__":
    main(sys.argv[1:])
