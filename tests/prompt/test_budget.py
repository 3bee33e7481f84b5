"""What every session pays before its first word, as it goes out on the wire."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from agent.model.encoding import o200k
from tests.fakes.llama import FakeLlama, say

MOST = 1500  # tokens of o200k; at 950 tok/s of a 31B on one GPU they are read in 1.6 s
AIM = 1200


def test_system_prompt_and_built_in_tools_keep_within_their_budget(tmp_path: Path) -> None:
    with FakeLlama([say("hello")]) as server:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "agent", "--server", server.url, "-p", "hello"],
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "DFLASH_HOME": str(tmp_path)},
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == 0, done.stderr
    (body,) = server.requests
    count = o200k()
    system, tools = body["messages"][0]["content"], json.dumps(body["tools"], separators=(",", ":"))
    spent = {"system prompt": count(system)} | {
        t["function"]["name"]: count(json.dumps(t, separators=(",", ":"))) for t in body["tools"]
    }
    total = count(system) + count(tools)
    assert total <= MOST, f"{total} tokens (aim: {AIM}): {spent}"
