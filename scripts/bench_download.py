"""What a download costs beside curl and the hub library, from a hub on loopback: seconds and CPU seconds per GB, the
median of RUNS, and their ratio to curl's in the same run.

    .venv-test/bin/python scripts/bench_download.py [MB]
"""

from __future__ import annotations

import hashlib
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

RUNS = 5
COMMIT = "0123456789abcdef0123456789abcdef01234567"
OURS = """
import asyncio, sys
from pathlib import Path
from agent.config.profile import ModelSource
from agent.runtime.download import fetch
from agent.runtime.hub import Hub
source = ModelSource(kind="hub", repo="some/model", file="m.gguf")
asyncio.run(fetch(Hub(sys.argv[1], Path(sys.argv[2])), (source,), lambda phase: None))
"""
LIBRARY = """
import sys
from huggingface_hub import hf_hub_download
hf_hub_download("some/model", "m.gguf", endpoint=sys.argv[1], cache_dir=sys.argv[2])
"""
IMPORTS = "import asyncio, agent.runtime.download"


def serve(path: Path, digest: str) -> ThreadingHTTPServer:
    """The kernel copies the content, so that the server costs next to nothing."""
    size = path.stat().st_size

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            if "/content" not in self.path:
                self.send_response(302)
                self.send_header("X-Repo-Commit", COMMIT)
                self.send_header("X-Linked-Size", str(size))
                self.send_header("X-Linked-ETag", f'"{digest}"')
                self.send_header("Location", f"http://localhost:{self.server.server_address[1]}/content")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(200)
            self.send_header("Content-Length", str(size))
            self.send_header("ETag", f'"{digest}"')
            self.end_headers()
            if self.command == "GET":
                self.wfile.flush()
                with path.open("rb") as file:
                    self.connection.sendfile(file)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def timed(argv: list[str], env: dict[str, str]) -> tuple[float, float]:
    """(seconds, CPU seconds)"""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    subprocess.run(argv, env=env, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.monotonic() - began, cpu


def main() -> None:
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    folder = Path(tempfile.mkdtemp(prefix="bench-download-"))
    try:
        block, digest = os.urandom(1_000_000), hashlib.sha256()
        with (folder / "m.gguf").open("wb") as file:
            for _ in range(megabytes):
                file.write(block)
                digest.update(block)
        url = f"http://127.0.0.1:{serve(folder / 'm.gguf', digest.hexdigest()).server_address[1]}"
        env = {
            **os.environ,
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "HF_HUB_DISABLE_XET": "1",
        }
        python = [sys.executable, "-P", "-c"]
        ways = {
            "curl": ["curl", "-sL", f"{url}/some/model/resolve/main/m.gguf", "-o", str(folder / "out")],
            "curl, then openssl": [
                *("sh", "-c", 'curl -sL "$1" -o "$2" && openssl dgst -sha256 "$2"', "sh"),
                *(f"{url}/some/model/resolve/main/m.gguf", str(folder / "out")),
            ],
            "dflash-agent": [*python, OURS, url, str(folder / "cache")],
            "huggingface_hub": [*python, LIBRARY, url, str(folder / "cache")],
            "(imports alone)": [*python, IMPORTS],
        }
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for _ in range(RUNS):
            for name, argv in ways.items():
                shutil.rmtree(folder / "cache", ignore_errors=True)
                (folder / "out").unlink(missing_ok=True)
                found[name].append(timed(argv, env))
        print(
            f"{megabytes} MB, per GB: median of {RUNS} (least to most); the ratio is that of the same round to curl's"
        )
        for name, rounds in found.items():
            row = f"{name:22}"
            for index, what in enumerate(("s", "CPU s")):
                values = [r[index] * 1000 / megabytes for r in rounds]
                ratios = [r[index] / c[index] for r, c in zip(rounds, found["curl"], strict=True)]
                row += f"  {statistics.median(values):6.2f} {what} ({min(values):.2f}-{max(values):.2f})"
                row += f" x{statistics.median(ratios):.1f}"
            print(row)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
