"""What every session pays before its first word, as it goes out on the wire."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("context", [8192, 32_768, 262_144])
def test_two_hundred_skills_take_at_most_two_percent_of_the_context(tmp_path: Path, context: int) -> None:
    words = "Use to reconcile ledger exports (CSV, OFX), look up IBANs — or “naïve” Zahlungsströme, 決算 and the like. "
    for n in range(200):
        folder = tmp_path / "config" / "skills" / f"ledger-{n}"
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(f"---\nname: ledger-{n}\ndescription: {words * 5}\n---\nDo it.\n")
    paths = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "DFLASH_HOME": str(tmp_path)}
    with FakeLlama([say("hello")], n_ctx=context) as server:
        argv = [sys.executable, "-P", "-m", "agent", "--server", server.url, "--ctx", str(context), "-p", "hello"]
        project = tmp_path / "project"
        project.mkdir()
        done = subprocess.run(argv, env=paths, cwd=project, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    system = server.requests[0]["messages"][0]["content"]
    catalogue = system[system.index("# Skills") :]
    assert o200k()(catalogue) <= context * 0.02 and "ledger-0" in catalogue
