#!/usr/bin/env python3
"""What the client itself costs, measured against a model server that answers at once (loopback, a fake).

    bench_client.py [--command CMD] [--tokens N] [--runs N] [--json FILE]
    bench_client.py --reading

Compile the environment first (python -m compileall), and run it on a quiet machine. Figures:

    startup     seconds from exec to the moment a typed character is on the screen, and CPU seconds of the process till
                then; the first output is when the terminal's second screen is taken
    rest        proportional set size at the prompt, MiB
    stream      client's CPU seconds per 1,000 tokens at 150 and at 1,000 tok/s, with figures of drafting beside each
                token as a llama-server with a draft sends them, and without; seconds from the server's last byte to the
                last word on the screen
    file        the same for the same text as a file that the model writes by a tool call
    enter       seconds from the Enter key to the request at the server (the median over all streams)
    headless    wall seconds of `-p hello`, all of it overhead
    --reading   CPU microseconds to read one token from its bytes, in this process, without and with figures beside it
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import pty
import re
import select
import shlex
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

TICK = os.sysconf("SC_CLK_TCK")
MARK = "ENDOFTHEANSWER"
ASKED = "Allow this?"  # the question that follows a whole call
KEY = "¶"  # typed once the screen is taken; stands in no escape sequence and in none of our own words


def answer(tokens: int) -> list[str]:
    """A Markdown answer of so many pieces: prose, lists and code blocks."""
    body = "".join(
        f"## Step {n}\n\nSome *prose* about step {n}, with `code` and enough words to fill more than one line.\n\n"
        f"```python\ndef step_{n}(items: list[int], limit: int = {n}) -> int:\n"
        + "".join(f"    value_{k} = sum(x * {k} for x in items if x > limit)  # partial result\n" for k in range(6))
        + "    return value_0\n```\n\n- first point\n- second point\n\n"
        for n in range(tokens // 60 + 2)
    )
    return [*re.findall(r"\s*\w+|\s*[^\w\s]+|\s+", body)[:tokens], f"\n```\n\n{MARK}\n"]


def timings_at(token: int) -> dict[str, Any]:
    """What a llama-server tells beside each token."""
    return {
        **{"cache_n": 0, "prompt_n": 10, "prompt_ms": 32.159, "prompt_per_token_ms": 3.2159},
        **{"prompt_per_second": 310.9549923815, "predicted_n": token + 1, "predicted_ms": 5.784 * token},
        **{"predicted_per_token_ms": 5.784, "predicted_per_second": 172.89073305670817},
        **{"draft_n": 7 * (token // 5 + 1), "draft_n_accepted": 4 * (token // 5 + 1)},
    }


class Server(ThreadingHTTPServer):
    """Answers every chat with `pieces` at `rate` tokens a second (0: at once); notes when the last byte left."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.pieces: list[str] = ["hello"]
        self.rate = 0.0
        self.file = False  # the pieces are the text of a file in a call of the write tool
        self.drafts = True
        self.arrived = self.last_byte = 0.0
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def send(self, data: Any) -> None:
        body = json.dumps(data).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        if path.endswith("/models"):
            self.send({"object": "list", "data": [{"id": "bench", "object": "model"}]})
        elif path == "/props":
            self.send({"default_generation_settings": {"n_ctx": 32768}, "build_info": "bench", "model_path": "bench"})
        elif path == "/slots":
            self.send([{"id": 0, "n_ctx": 32768, "speculative": self.server.drafts}])
        else:
            self.send({"status": "ok"})

    def do_POST(self) -> None:
        arrived = time.monotonic()
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        if not self.path.endswith("/chat/completions"):
            self.send_error(404)
            return
        self.server.arrived = arrived
        each = body.get("timings_per_token", False)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        start = time.monotonic()
        if self.server.file:
            self.arguments('{"file": "notes.md", "text": "', "write")
        for number, piece in enumerate(self.server.pieces):
            if self.server.rate and (wait := start + number / self.server.rate - time.monotonic()) > 0:
                time.sleep(wait)
            if self.server.file:
                self.arguments(json.dumps(piece)[1:-1])
                continue
            data = {"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]}
            self.event(data | ({"timings": timings_at(number)} if each else {}))
        if self.server.file:
            self.arguments('"}')
        count = len(self.server.pieces)
        reason = "tool_calls" if self.server.file else "stop"
        self.event({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
        usage = {"prompt_tokens": 10, "completion_tokens": count, "total_tokens": 10 + count}
        timings = {
            "cache_n": 0,
            "prompt_n": 10,
            "predicted_n": count,
            "predicted_ms": 1.0,
            "predicted_per_second": 150.0,
        }
        self.event({"choices": [], "usage": usage, "timings": timings})
        self.wfile.write(b"data: [DONE]\n\n")
        self.server.last_byte = time.monotonic()

    def arguments(self, text: str, name: str = "") -> None:
        call = {"index": 0, "function": {"arguments": text}}
        if name:
            call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": name, "arguments": text}}
        self.event({"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None}]})

    def event(self, data: dict[str, Any]) -> None:
        self.wfile.write(b"data: " + json.dumps({"object": "chat.completion.chunk", **data}).encode() + b"\n\n")


class Screen:
    """The product in a pseudo-terminal of 120x40; its output is read all the time, as a terminal does."""

    def __init__(self, argv: list[str], env: dict[str, str]) -> None:
        self.started = time.monotonic()
        self.pid, self.fd = pty.fork()
        if not self.pid:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
            modes = termios.tcgetattr(0)
            modes[3] &= ~termios.ECHO  # a typed character on the screen is then the product's doing
            termios.tcsetattr(0, termios.TCSANOW, modes)
            os.execvpe(argv[0], argv, env)
        self.seen = b""

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def wait(self, what: Callable[[bytes], bool], within: float) -> float:
        """The moment (monotonic) at which the output so far satisfied `what`."""
        limit = time.monotonic() + within
        while not what(self.seen):
            if time.monotonic() > limit:
                raise SystemExit(f"not seen within {within} s; the last output was {self.seen[-300:]!r}")
            if select.select([self.fd], [], [], 0.02)[0]:
                with contextlib.suppress(OSError):
                    self.seen += os.read(self.fd, 1 << 16)
        return time.monotonic()

    def cpu(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def pss_mib(self) -> float:
        found = re.search(r"^Pss:\s+(\d+)", Path(f"/proc/{self.pid}/smaps_rollup").read_text(), re.M)
        return int(found[1]) / 1024 if found else 0.0

    def settle(self, quiet: float = 1.0) -> None:
        """Reads until nothing has come for so many seconds."""
        while select.select([self.fd], [], [], quiet)[0]:
            try:
                self.seen += os.read(self.fd, 1 << 16)
            except OSError:
                return

    def close(self) -> None:
        os.kill(self.pid, signal.SIGTERM)
        self.settle(0.5)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


def measure(command: list[str], tokens: int, runs: int) -> dict[str, Any]:
    server = Server()
    with tempfile.TemporaryDirectory() as home:
        env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        env |= {"DFLASH_HOME": home, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        argv = [*command, "--server", server.url]
        paints, starts, cpus, rests = [], [], [], []
        for _ in range(runs):
            screen = Screen(argv, env)
            paints.append(screen.wait(lambda seen: b"\x1b[?1049h" in seen, 30) - screen.started)
            screen.type(KEY)
            starts.append(screen.wait(lambda seen: KEY.encode() in seen, 30) - screen.started)
            cpus.append(screen.cpu())
            screen.settle(2.0)
            rests.append(screen.pss_mib())
            screen.close()
        streams: dict[str, dict[str, Any]] = {"stream": {}, "stream_without_figures": {}, "file": {}}
        enters = []
        runs_of = [("stream", 150), ("stream", 1000), ("stream_without_figures", 1000), ("file", 150), ("file", 1000)]
        for what, rate in runs_of:
            server.pieces, server.rate, server.file = answer(tokens), float(rate), what == "file"
            server.drafts = what != "stream_without_figures"
            costs, lags = [], []
            for _ in range(runs):
                screen = Screen(argv, env)
                screen.wait(lambda seen: b"\x1b[?1049h" in seen, 30)
                screen.settle(2.0)
                before = screen.cpu()
                screen.type("go")
                screen.settle(0.3)
                pressed = time.monotonic()
                screen.type("\r")
                mark = ASKED if server.file else MARK
                seen_at = screen.wait(lambda seen, mark=mark: mark.encode() in seen, tokens / rate + 120)
                enters.append(server.arrived - pressed)
                lags.append(max(0.0, seen_at - server.last_byte))
                if not server.file:  # a question that waits is a clock that ticks: it never settles
                    screen.settle(1.0)
                costs.append((screen.cpu() - before) / len(server.pieces) * 1000)
                screen.close()
            streams[what][str(rate)] = {"cpu_s_per_1k": statistics.median(costs), "lag_s": statistics.median(lags)}
        server.file = False
        server.pieces, server.rate = ["hello"], 0.0
        headless = []
        for _ in range(runs):
            begun = time.monotonic()
            subprocess.run([*argv, "-p", "hello"], env=env, check=True, stdin=subprocess.DEVNULL, capture_output=True)
            headless.append(time.monotonic() - begun)
    server.shutdown()
    return {
        "first_output_s": statistics.median(paints),
        "startup_s": statistics.median(starts),
        "startup_cpu_s": statistics.median(cpus),
        "rest_pss_mib": statistics.median(rests),
        "enter_s": statistics.median(enters),
        **streams,
        "headless_s": statistics.median(headless),
    }


def reading(tokens: int = 10_000) -> dict[str, float]:
    from agent.model.sse import EventReader
    from agent.model.wire import Reader

    found = {}
    for name, extra in (("plain_us", False), ("with_figures_us", True)):
        chunks = []
        for number, piece in enumerate(answer(tokens)):
            data: dict[str, Any] = {"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]}
            data |= {"timings": timings_at(number)} if extra else {}
            chunks.append(b"data: " + json.dumps({"object": "chat.completion.chunk", **data}).encode() + b"\n\n")
        costs = []
        for _ in range(7):
            events, reader, begun = EventReader(), Reader(), time.process_time()
            for chunk in chunks:
                for event in events.feed(chunk):
                    list(reader.read(json.loads(event)))
            costs.append((time.process_time() - begun) / len(chunks) * 1e6)
        found[name] = min(costs)
    return found


def rounded(value: Any) -> Any:
    return {k: rounded(v) for k, v in value.items()} if isinstance(value, dict) else round(value, 3)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--command", default=f"{Path(sys.executable).parent}/dflash-agent")
    options.add_argument("--tokens", type=int, default=3000)
    options.add_argument("--runs", type=int, default=3, help="each figure is the median of so many")
    options.add_argument("--json", type=Path)
    options.add_argument("--reading", action="store_true")
    chosen = options.parse_args()
    figures = reading() if chosen.reading else measure(shlex.split(chosen.command), chosen.tokens, chosen.runs)
    text = json.dumps(rounded(figures), indent=1)
    print(text)
    if chosen.json:
        chosen.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
