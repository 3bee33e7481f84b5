"""A hub on a loopback socket: names and metadata as the Hugging Face hub gives them, contents from a second place.

`faults` is a list of steps, taken one for each request for content:
    {"cut": n}      ends the connection after n bytes       {"status": 503}      an answer without content
    {"page": True}  a login page                            {"body": b"..."}     other content, no ranges
    {"hold": True}  sends half, sets `held`, then waits     {"no_range": True}   the whole file, whatever is asked
    {"pace": s}     s seconds between two pieces            {"status": 429, "after": "1"}   with Retry-After
`refusal` (status, code) answers every request for metadata.
"""

from __future__ import annotations

import hashlib
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class FakeHub(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, files: dict[str, bytes], tls: ssl.SSLContext | None = None) -> None:
        """`files`: "owner/repo/name" to content."""
        super().__init__(("127.0.0.1", 0), _Handler)
        self._scheme = "https" if tls else "http"
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_side=True)
        self.files = files
        self.faults: list[dict[str, Any]] = []
        self.refusal: tuple[int, str] | None = None
        self.asked: list[tuple[str, str, str]] = []  # method, path, range
        self.sent = 0
        self.tokens: list[str | None] = []
        self.held, self.released = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.server_address[1]}"

    def etag(self, name: str) -> str:
        return hashlib.sha256(self.files[name]).hexdigest()

    @property
    def ranges(self) -> list[str]:
        return [r for m, path, r in self.asked if m == "GET" and path.startswith("/content/")]

    def __enter__(self) -> FakeHub:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # clients go away in the middle of an answer here


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FakeHub

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def answer(self) -> None:
        path = self.path.split("?")[0]
        self.server.asked.append((self.command, path, self.headers.get("Range", "")))
        self.server.tokens.append(self.headers.get("Authorization"))
        if path.startswith("/content/"):
            self.content(path.removeprefix("/content/"))
            return
        repo, _, rest = path.removeprefix("/").partition("/resolve/")
        revision, _, name = rest.partition("/")
        content = self.server.files.get(f"{repo}/{name}")
        if self.server.refusal:
            status, code = self.server.refusal
            self.plain(status, {"X-Error-Code": code, "Retry-After": "30"})
        elif content is None or revision not in ("main", COMMIT):
            self.plain(404, {"X-Error-Code": "EntryNotFound"})
        else:
            digest = hashlib.sha256(content).hexdigest()
            headers = {"X-Repo-Commit": COMMIT, "X-Linked-Size": str(len(content)), "X-Linked-ETag": f'"{digest}"'}
            self.plain(
                302, headers | {"Location": f"http://localhost:{self.server.server_address[1]}/content/{repo}/{name}"}
            )

    def plain(self, status: int, headers: dict[str, str], body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def content(self, name: str) -> None:
        content, fault = self.server.files[name], self.server.faults.pop(0) if self.server.faults else {}
        if "status" in fault:
            self.plain(fault["status"], {"Retry-After": fault["after"]} if "after" in fault else {})
            return
        if "page" in fault:
            self.plain(200, {"Content-Type": "text/html"}, b"<html>please log in</html>")
            return
        if "body" in fault:
            self.plain(200, {}, fault["body"])
            return
        wanted = self.headers.get("Range", "").removeprefix("bytes=").rstrip("-")
        start = int(wanted) if wanted and "no_range" not in fault else 0
        body = content[start:]
        self.send_response(206 if wanted and "no_range" not in fault else 200)
        self.send_header("Content-Length", str(len(body)))
        if wanted and "no_range" not in fault:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.end_headers()
        end = fault.get("cut", len(body) // 2 if "hold" in fault else len(body))
        for at in range(0, end, 1 << 16):
            piece = body[at : min(at + (1 << 16), end)]
            self.wfile.write(piece)
            self.server.sent += len(piece)
            time.sleep(fault.get("pace", 0))
        if "hold" in fault:
            self.wfile.flush()
            self.server.held.set()
            self.server.released.wait()
        if end < len(body):
            self.close_connection = True
