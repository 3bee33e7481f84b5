"""The bash tool against real shells, real terminals and real processes."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
from pathlib import Path

import pytest

from tests.tools.conftest import Bench, alive, until, with_command_line


# ---- the command and its end
@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("cat <<'EOF'\nhello\nEOF", "hello\n[exit status 0]"),
        ("echo hi # note", "hi\n[exit status 0]"),
        ("echo out; echo err >&2; exit 7", "out\nerr\n[exit status 7]"),
        ("true", "[exit status 0]"),
        ("kill -9 $$", "[ended by signal 9 (SIGKILL)]"),
        ("exec sh -c 'kill -TERM $$'", "[ended by signal 15 (SIGTERM)]"),
        ("exit 137", "[exit status 137 (SIGKILL)]"),
        ("exit 200", "[exit status 200]"),
        ("yes | head -1", "y\n[exit status 0]"),
        ("false | true", "[exit status 0]"),
        ("sleep 0.1 &", "[exit status 0]"),
        ("exec >&- 2>&-; sleep 0.1; exit 4", "[exit status 4]"),
        ("exec bash -c 'exit 3'", "[exit status 3]"),
        ("set -eu; set -x; cd .; exit 5", "+ cd .\n+ exit 5\n[exit status 5]"),
        ("trap 'echo mine' EXIT; exit 6", "mine\n[exit status 6]"),
        ("kill -9 $PPID; exec sleep 0.1", "[ended by a signal]"),
    ],
)
async def test_the_command_runs_as_written_and_its_end_is_told(bench: Bench, command: str, shown: str) -> None:
    output = await bench.bash(command)
    assert (output.text, output.failed) == (shown, not shown.endswith("status 0]"))


@pytest.mark.parametrize("name", ["TERM", "HUP", "SEGV", "INT"])
async def test_a_shell_that_a_signal_ends_has_not_succeeded(
    bench: Bench, name: str, request: pytest.FixtureRequest
) -> None:
    number = signal.Signals[f"SIG{name}"]
    if signal.getsignal(number) is signal.SIG_IGN:  # as under nohup; a shell cannot undo what it was started with
        signal.signal(number, signal.SIG_DFL)
        request.addfinalizer(lambda: signal.signal(number, signal.SIG_IGN))
    answer = await bench.call("bash", command=f"echo a; kill -{name} $$; sleep 5")
    assert answer.failed and f"(SIG{name})]" in answer.text and answer.text.startswith("a\n[ended by signal")


async def test_a_syntax_error_is_an_answer_and_an_empty_command_a_refusal(bench: Bench) -> None:
    assert "unexpected EOF" in (text := await bench.text("echo 'open")) and "[exit status 2]" in text
    assert "empty" in await bench.text("   ")


# ---- what a command leaves to the next
async def test_folder_and_exported_variables_carry_over_and_nothing_else_does(bench: Bench) -> None:
    (bench.root / "sub dir").mkdir()
    text = await bench.text("cd 'sub dir'; export X=1; Y=2; set -e; shopt -s nullglob; f() { :; }; alias a=b")
    assert f"[the next command runs in {bench.root}/sub dir; files are still named from {bench.root}]" in text
    assert await bench.text('pwd; echo "[$X][$Y]"; false; type f') == (
        f"{bench.root}/sub dir\n[1][]\nbash: line 1: type: f: not found\n[exit status 1]"
    )
    assert "the next command runs in" in await bench.text("cd ..; unset X; exit 1")
    assert await bench.text('pwd; echo "[$X]"') == f"{bench.root}\n[]\n[exit status 0]"


ODD_VALUES = [
    "",
    "a b",
    'q"u$o`t\\e',
    "two\nlines\n",
    "tab\t\x01\x1b",
    "é — 中",
    "'single'",
    "declare -x EVIL=1\n",
    "x" * 100_000,
]


@pytest.mark.parametrize("value", ODD_VALUES, ids=lambda v: ascii(v)[:20])
async def test_a_variable_keeps_its_very_value(bench: Bench, value: str) -> None:
    (bench.root / "value").write_bytes(value.encode())
    await bench.bash("export V; IFS= read -rd '' V < value; :")
    await bench.bash('printf %s "$V" > again; [ -z "$EVIL" ] || touch evil')
    assert (bench.root / "again").read_bytes() == value.encode() and not (bench.root / "evil").exists()


async def test_variables_too_big_for_any_command_do_not_lose_the_shell(bench: Bench) -> None:
    await bench.bash("export V=$(head -c 200000 /dev/zero | tr '\\0' x)")
    text = await bench.text('echo alive "${#V}"')
    assert text.startswith("alive 0\n[exit status 0]\n[the exported variables had become too large")


async def test_the_shells_own_bash_env_is_kept_and_ours_is_not_seen(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "own").write_text("echo own")
    await bench.bash(f"export BASH_ENV={tmp_path}/own")
    assert await bench.text("echo $BASH_ENV; env | grep -c ^DFLASH_STATE") == f"own\n{tmp_path}/own\n0\n[exit status 1]"
    assert (await bench.text("unset BASH_ENV")).startswith("own\n")
    assert await bench.text("env | grep BASH_ENV; bash -c 'echo inner'") == "inner\n[exit status 0]"


async def test_a_folder_that_is_gone_is_said_and_the_project_stands_in(bench: Bench) -> None:
    await bench.bash("mkdir gone && cd gone && rmdir ../gone")
    text = await bench.text("echo alive; pwd")
    assert text.startswith(f"alive\n{bench.root}\n[exit status 0]\n[the folder {bench.root}/gone is gone")
    bench.root.rmdir()
    assert "is gone; no command can run" in await bench.text("echo a")
    bench.root.mkdir()
    assert await bench.text("echo a") == "a\n[exit status 0]"


async def test_a_command_is_judged_from_where_it_will_run(bench: Bench) -> None:
    def written() -> list[str]:
        plan = bench.tools["bash"].plan(bench.tools["bash"].params(command="echo x > ../../x"))
        return [access.what for access in plan.accesses if access.act == "edit"]

    await bench.bash("mkdir -p a/b && cd a/b")
    assert written() == [str(bench.root / "x")]
    await bench.bash("rm -r ../../a")
    assert written() == [str(bench.root.parent.parent / "x")]


@pytest.mark.parametrize(
    ("before", "still_free"),
    [
        ("export NOTE=1", True),
        ("mkdir -p own/bin && touch own/bin/pip && chmod +x own/bin/pip && export PATH=$PWD/own/bin:$PATH", True),
        ("mkdir -p own/bin && touch own/bin/git && chmod +x own/bin/git && export PATH=$PWD/own/bin:$PATH", False),
        ("export PATH=.:$PATH", False),
        ("export PATH=", False),
        ("unset PATH", False),
        ("export GIT_EXTERNAL_DIFF=/tmp/other", False),
        ("export HOME=/tmp", False),
        ("export LD_PRELOAD=", False),
        ("unset HOME", False),
    ],
)
async def test_what_only_looks_is_free_as_long_as_it_is_the_same_program(
    bench: Bench, before: str, still_free: bool
) -> None:
    async def free() -> bool:
        bash = bench.tools["bash"]
        plan = bash.plan(bash.params.model_validate({"command": "git status"}))
        return all(access.harmless for access in plan.accesses if access.act == "run")

    assert await free()
    await bench.bash(before)
    assert await free() == still_free


async def test_a_project_path_may_hold_anything(tmp_path: Path) -> None:
    base = tmp_path / "a b\nü $(touch no) -x"
    base.mkdir()
    bench = Bench(base)
    assert await bench.text('touch here; cd /; cd -; basename "$PWD"') == f"{bench.root}\nproject\n[exit status 0]"
    assert (bench.root / "here").exists()


# ---- the terminal
async def test_it_is_a_terminal_in_which_nobody_is_asked(bench: Bench) -> None:
    text = await bench.text(
        "test -t 0 && test -t 1 && test -t 2 && tty -s < /dev/tty && stty size; echo $CI $TERM $PAGER"
    )
    assert text == "40 120\n1 dumb cat\n[exit status 0]"
    await bench.bash(
        "git init -q . && git config user.name n && git config user.email e@x.invalid && touch f && git add f"
    )
    text = await bench.text("git commit")
    assert "no-editor-here" in text and "[exit status 1]" in text
    text = await bench.text("git commit -qm first; git log; $EDITOR file")
    assert "first" in text and "no-editor-here" in text


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (r"printf '\033[31mred\033[0m\0\r10%%\r20%%\r\n'", "20%"),
        (r"for i in 1 2 3; do printf '\r%d of 3 ' $i; sleep 0.02; done; echo", "3 of 3 "),
        (r"printf 'one\ntwo\n\033[2A\033[Juno\ndos\n'", "uno\ndos"),
        (r"printf 'half \342\202'; printf '\254 \377 end\n'", "half € \ufffd end"),
        (r"printf 'abc\b\bX\n\033]0;title\007x\n'", "aXc\nx"),
        (r"printf 'first\n\033[2J\033[Hsecond\n'", "first\nsecond"),
    ],
)
async def test_the_model_reads_what_would_stand_on_the_screen(bench: Bench, command: str, shown: str) -> None:
    assert await bench.text(command) == f"{shown}\n[exit status 0]"


async def test_a_short_pause_shows_what_came_before_it(bench: Bench) -> None:
    running = asyncio.create_task(bench.bash("printf 'compiling '; until [ -e go ]; do sleep 0.05; done"))
    await until(lambda: bench.tails[-1:] == ["compiling "])
    (bench.root / "go").touch()
    await running


# ---- much output
async def test_a_long_output_keeps_both_ends_its_size_and_a_file_with_all_of_it(bench: Bench) -> None:
    text = await bench.text("seq 1 300000; exit 3")
    assert text.startswith("1\n2\n") and text.endswith("\n300000\n[exit status 3]")
    assert len(text) < 25_000 and "1988895 bytes in all" in text
    log = next(bench.logs.iterdir())
    assert str(log) in text
    assert log.read_bytes() == b"".join(b"%d\n" % n for n in range(1, 300_001))
    assert (await bench.process("read", "1", offset=1_000_000)).startswith(log.read_text()[1_000_000:1_010_000])
    assert "[goes on at offset 1016000 of 1988895]" in await bench.process("read", "1", offset=1_000_000)


async def test_one_line_of_100_mb_is_bounded_and_memory_stays_flat(bench: Bench) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    text = await bench.text("echo START; head -c 100000000 /dev/zero | tr '\\0' x; echo; echo AFTER; exit 3", 60)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000  # kB
    assert text.startswith("START\nxxx") and text.endswith("xxx\nAFTER\n[exit status 3]") and len(text) < 25_000
    assert "100000013 bytes in all" in text
    assert next(bench.logs.iterdir()).stat().st_size == 100_000_013
    assert sum(map(len, bench.progress)) < 1_100_000


@pytest.mark.parametrize(
    ("command", "size"),
    [
        ("head -c 70000 /dev/zero | tr '\\0' a; echo; echo AFTER", 70_007),
        ("seq 1 200000 & seq 1 200000 >&2; wait; echo AFTER", 2 * 1_288_895 + 6),
    ],
)
async def test_whatever_its_form_much_output_is_whole_in_the_file(bench: Bench, command: str, size: int) -> None:
    text = await bench.text(command)
    assert text.endswith("\nAFTER\n[exit status 0]") and f"{size} bytes in all" in text and len(text) < 25_000
    assert next(bench.logs.iterdir()).stat().st_size == size


async def test_old_logs_make_room(bench: Bench) -> None:
    bench.logs.mkdir()
    for number in range(3):
        with (bench.logs / f"bash-{number}.log").open("wb") as log:
            log.truncate(600_000_000)  # sparse: it takes no room
        os.utime(log.name, (number, number))
    await bench.bash("seq 1 300000")
    names = {p.name for p in bench.logs.iterdir()}
    assert len(names) == 2 and "bash-2.log" in names


async def test_endless_output_ends_with_the_time_and_leaves_nothing(bench: Bench) -> None:
    output = await bench.bash("yes", timeout=1)
    assert output.failed and output.text.startswith("y\ny\n") and "timed out after 1 s" in output.text
    assert bench.book.left() == ()


async def test_without_a_place_for_logs_both_ends_are_still_told(bench: Bench) -> None:
    bench.logs.write_text("a file is in the way")
    text = await bench.text("seq 1 300000")
    assert text.startswith("1\n2\n") and text.endswith("300000\n[exit status 0]") and "no log could be written" in text


# ---- the end of what was started
STUBBORN = 'bash -c \'trap "" TERM; (trap "" TERM; while :; do date >> beat.log; sleep 0.1; done) & wait\''


async def test_a_time_out_stops_even_what_ignores_the_request(bench: Bench) -> None:
    output = await bench.bash(f"echo early; {STUBBORN}", timeout=0.7)
    assert output.failed
    assert output.text == "early\n[timed out after 0.7 s; it and all it had started were stopped]"
    assert not with_command_line("beat.log") and (bench.root / "beat.log").exists()


async def test_a_time_out_stops_what_has_a_session_of_its_own(bench: Bench) -> None:
    await bench.bash("setsid sleep 2718 & (env -i setsid sleep 2718 >/dev/null 2>&1 &); sleep 60", timeout=0.7)
    assert not with_command_line("sleep 2718")


async def test_what_forks_when_told_to_stop_is_stopped_too(bench: Bench) -> None:
    text = await bench.text("trap 'setsid sleep 3141 &' TERM; while :; do sleep 0.1; done", timeout=0.5)
    assert "timed out after 0.5 s" in text
    assert not with_command_line("sleep 3141")


async def test_cancelling_twice_leaves_nothing_behind(bench: Bench) -> None:
    running = asyncio.create_task(bench.bash(f"setsid sleep 1618 & touch on; {STUBBORN}"))
    await until((bench.root / "on").exists)
    running.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not with_command_line("sleep 1618") and not with_command_line("beat.log")
    assert await bench.text("echo next") == "next\n[exit status 0]"


async def test_a_helper_of_the_product_and_a_foreign_process_are_left_alone(bench: Bench) -> None:
    running = asyncio.create_task(bench.bash("touch on; sleep 60", timeout=1))
    await until((bench.root / "on").exists)
    engine = await asyncio.create_subprocess_exec("sleep", "300", start_new_session=True)
    try:
        assert "timed out" in (await running).text
        assert "left" not in await bench.text("echo x")
        await bench.book.stop_all()
        assert alive(engine.pid)
    finally:
        engine.send_signal(signal.SIGKILL)
        await engine.wait()


async def test_it_keeps_no_descriptor_open_behind_a_command(bench: Bench) -> None:
    await bench.bash("echo warm")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for command in ("echo a", "exit 3", "kill -9 $$", "sleep 0.1 &", "seq 1 100000"):
        await bench.bash(command)
    await bench.bash("sleep 60", timeout=0.3)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


async def test_a_hooks_repository_is_not_the_one_that_commands_see(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.bash("git init -q ../other")
    for name, value in (("GIT_DIR", "../other/.git"), ("GIT_WORK_TREE", "../other"), ("GIT_INDEX_FILE", "x")):
        monkeypatch.setenv(name, value)
    bench.forget()
    await bench.bash("git init -q . && git config user.name n && git config user.email e@x.invalid")
    await bench.bash("git commit --allow-empty -qm here")
    assert await bench.text("git log --oneline | wc -l; git -C ../other log 2>&1 | head -1") == (
        "1\nfatal: your current branch 'master' does not have any commits yet\n[exit status 0]"
    )


async def test_a_lost_path_does_not_lose_the_shell(bench: Bench) -> None:
    await bench.bash("export PATH=")
    assert await bench.text("echo alive; ls") == (
        "alive\nbash: line 1: ls: No such file or directory\n[exit status 127]"
    )
    assert await bench.text("export PATH=/usr/bin:/bin") == "[exit status 0]"
    assert await bench.text("ls") == "[exit status 0]"
