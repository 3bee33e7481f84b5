"""`dflash-agent server` with the real engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.real


def run(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "DFLASH_HOME": str(home)}
    argv = [sys.executable, "-P", "-m", "agent", *arguments]
    return subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100)


def test_the_real_engine_is_started_looked_at_used_and_stopped(home: Path) -> None:
    try:
        started = run(home, "server", "start", "--offline")
        assert started.returncode == 0 and "with n-gram drafts and a context of 8192 tokens" in started.stdout
        before = json.loads(run(home, "server", "status", "--json").stdout)["engines"][0]
        assert before["answers"] and before["rung"] == "ngram" and "11434" in before["engine"]
        assert run(home, "-p", "Say hello.", "--offline").returncode in (0, 5)  # it may ramble to its limit
        after = json.loads(run(home, "server", "status", "--json").stdout)["engines"][0]
        assert after["pid"] == before["pid"]
        assert after["totals"]["generated"] > before["totals"]["generated"]
        assert "all slots are idle" in run(home, "server", "logs").stdout
    finally:
        stopped = run(home, "server", "stop")
    assert stopped.stdout == f"Stopped smoke (pid {before['pid']}).\n"
