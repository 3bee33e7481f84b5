"""The console script as a stranger meets it: every run is a real process."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.llama import FakeLlama, call, chunk, say
from tests.real.tiny import make_tiny
from tests.runtime.dialects import HELP

CLI = [sys.executable, "-P", "-m", "agent"]


def environment(home: Path, **more: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "DFLASH_HOME": str(home / "dflash"),
        "LANG": "C.UTF-8",
        **more,
    }


def run(home: Path, *arguments: str, stdin: str = "", cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CLI, *arguments],
        env=environment(home),
        cwd=cwd or home,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_an_input_that_does_not_end_is_said_and_still_belongs_to_the_prompt(tmp_path: Path) -> None:
    with FakeLlama([say("done")]) as server:
        argv = [*CLI, "--server", server.url, "-p", "hi"]
        env, pipe = environment(tmp_path), subprocess.PIPE
        with subprocess.Popen(argv, env=env, cwd=tmp_path, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
            assert process.stdin and process.stdout and process.stderr
            assert process.stderr.readline().startswith("Waiting for standard input to end")
            process.stdin.write("late words")
            process.stdin.close()
            assert process.stdout.read() == "done\n"
    assert server.requests[0]["messages"][-1]["content"] == "hi\n\nlate words"


def test_an_answer_cannot_steer_the_terminal_it_is_shown_in(tmp_path: Path) -> None:
    with FakeLlama([say("a\x1b]0;owned\x07b \U0001f468\u200d\U0001f467")]) as server:
        argv = [*CLI, "--server", server.url, "-p", "hi"]
        there, here = os.openpty()
        subprocess.run(argv, env=environment(tmp_path), cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=here, timeout=60)
        os.close(here)
        shown = os.read(there, 1000)
        os.close(there)
    assert b"\x1b" not in shown and b"\x07" not in shown and "\U0001f468\u200d\U0001f467".encode() in shown


def test_the_version_needs_neither_textual_nor_openai_nor_mcp(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-X", "importtime", "-m", "agent", "--version"],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == "dflash-agent 0.1.0\n"
    imported = {line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines()}
    assert "argparse" in imported
    assert not {m for m in imported if m.split(".")[0] in {"textual", "openai", "mcp", "huggingface_hub", "git"}}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--profile", "nonsense", "-p", "hi"], "smoke"),
        (["--server", "http://127.0.0.1:99999", "-p", "hi"], "99999"),
        (["--server", "ftp://example", "-p", "hi"], "ftp"),
        (["-C", "/no/such/folder", "-p", "hi"], "/no/such/folder"),
        (["-p", ""], "needs a prompt"),
        (["-r", "nope", "--server", "http://127.0.0.1:9", "-p", "hi"], "No session"),
        (["-c", "--server", "http://127.0.0.1:9", "-p", "hi"], "No session to continue"),
        (["--max-turns", "0", "-p", "hi"], "above 0"),
        (["--ctx", "1", "-p", "hi"], "greater than or equal to 256"),
        (["--ctx", "9" * 20, "-p", "hi"], "less than or equal to 16777216"),
        (["--server", "http://127.0.0.1:9"], "terminal"),
        (["--profile", "smoke", "--server", "http://127.0.0.1:9", "-p", "hi"], "--server"),
    ],
)
def test_wrong_use_is_one_sentence_and_exit_code_2(tmp_path: Path, arguments: list[str], says: str) -> None:
    done = run(tmp_path, *arguments)
    assert done.returncode == 2
    assert says in done.stderr and "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_profile_for_a_gpu_ends_without_one_with_the_way_round(tmp_path: Path) -> None:
    done = run(tmp_path, "--profile", "gemma4-31b-dflash", "-p", "hi", "--output-format", "json")
    assert done.returncode == 3 and json.loads(done.stdout)["error"]["kind"] == "engine"
    assert "needs a GPU, and none was found" in done.stderr and "--profile smoke" in done.stderr


def test_a_broken_home_is_one_sentence(tmp_path: Path) -> None:
    done = subprocess.run(
        [*CLI, "-p", "hi"], env={"PATH": os.environ["PATH"]}, cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2 and "set HOME" in done.stderr and "Traceback" not in done.stderr


def test_nobody_at_the_address_is_exit_code_3_and_a_result_in_json(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    done = run(tmp_path, "--server", f"http://127.0.0.1:{port}", "-p", "hi", "--output-format", "json")
    assert done.returncode == 3
    result = json.loads(done.stdout)
    assert (result["status"], result["error"]["kind"]) == ("failed", "server")
    assert str(port) in result["error"]["message"] and "Traceback" not in done.stderr


def test_text_output_is_the_answer_alone(tmp_path: Path) -> None:
    with FakeLlama([say("The sea is wide — and «deep».")]) as server:
        done = run(tmp_path, "--server", server.url, "-p", "one sentence", stdin="about the sea")
    assert (done.returncode, done.stdout) == (0, "The sea is wide — and «deep».\n")
    sent = server.requests[-1]["messages"][-1]
    assert sent["role"] == "user" and sent["content"].endswith("one sentence\n\nabout the sea")


def test_json_lines_follow_the_contract(tmp_path: Path) -> None:
    with FakeLlama([call("bash", command="echo hi"), say("done")]) as server:
        done = run(
            tmp_path, "--server", server.url, "-p", "go", "--output-format", "stream-json", "--permission-mode", "auto"
        )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [e["event"] for e in lines] == [
        *("TurnStarted", "AssistantAdded", "CallPlanned", "PermissionSettled", "ResultAdded"),
        *("AssistantAdded", "TurnEnded", "Result"),
    ]
    result = lines[-1]
    assert result["status"] == "done" and result["text"] == "done" and result["error"] is None
    assert result["stats"]["requests"] == 2 and len(result["turns"]) == 2
    assert set(result["stats"]) == {
        *("requests", "prompt_tokens", "cached_tokens", "generated_tokens", "draft_tokens", "accepted_tokens"),
        *("acceptance", "tokens_per_step", "tokens_per_second", "seconds"),
    }
    shown = lines[4]
    assert {"call_id", "tool", "text", "failed", "seconds"} <= set(shown) and "hi" in shown["text"]


def test_what_would_ask_is_denied_without_a_screen(tmp_path: Path) -> None:
    with FakeLlama([call("bash", command="touch made"), say("I could not")]) as server:
        done = run(tmp_path, "--server", server.url, "-p", "go", "--output-format", "json")
    assert done.returncode == 4 and json.loads(done.stdout)["status"] == "denied"
    assert not (tmp_path / "made").exists()


def test_a_session_goes_on_where_it_stopped(tmp_path: Path) -> None:
    with FakeLlama([say("first answer"), say("second answer")]) as server:
        run(tmp_path, "--server", server.url, "-p", "remember 42")
        done = run(tmp_path, "--server", server.url, "-c", "-p", "what was it")
    assert done.stdout == "second answer\n"
    assert [m["content"] for m in server.requests[-1]["messages"][1:]] == ["remember 42", "first answer", "what was it"]


def test_a_resumed_session_sends_the_same_first_bytes_though_agents_md_has_changed(tmp_path: Path) -> None:
    with FakeLlama([say("one"), say("two")]) as server:
        (tmp_path / "AGENTS.md").write_text("Use tabs.\n")
        run(tmp_path, "--server", server.url, "-p", "hello")
        (tmp_path / "AGENTS.md").write_text("Use spaces.\n")
        run(tmp_path, "--server", server.url, "-c", "-p", "go on")
    first, second = server.requests
    assert second["tools"] == first["tools"] and second["messages"][0] == first["messages"][0]
    assert "Use tabs." in first["messages"][0]["content"]
    assert second["messages"][1] == first["messages"][1]
    newest = second["messages"][-1]["content"]
    assert newest.startswith("go on\n") and "-Use tabs.\n+Use spaces." in newest


def test_sessions_are_listed_by_their_first_line(tmp_path: Path) -> None:
    with FakeLlama([say("ok")]) as server:
        run(tmp_path, "--server", server.url, "-p", "remember [bold]42[/bold]\nand more")
    done = run(tmp_path, "-r")
    assert done.returncode == 0 and done.stdout.endswith(f"{tmp_path}  remember [bold]42[/bold]\n")


def test_a_prompt_of_a_megabyte_arrives_whole(tmp_path: Path) -> None:
    text = "0123456789abcdef" * 65536
    with FakeLlama([say("read")]) as server:
        done = run(tmp_path, "--server", server.url, "-p", "count", stdin=text)
    assert done.stdout == "read\n" and server.requests[-1]["messages"][-1]["content"] == f"count\n\n{text}"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_the_turn_and_closes_the_connection(tmp_path: Path, number: signal.Signals, code: int) -> None:
    with FakeLlama([say("half of the", hold=True)]) as server:
        process = subprocess.Popen(
            [*CLI, "--server", server.url, "-p", "go", "--output-format", "json"],
            env=environment(tmp_path),
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert server.held.wait(30)
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
        assert server.disconnected.wait(10)
    assert process.returncode == code, err
    result = json.loads(out)
    assert result["status"] == "interrupted"
    assert "half of the".startswith(result["text"])  # how much had been read by then is up to the machine


def test_a_reader_that_goes_away_is_no_page_of_internals(tmp_path: Path) -> None:
    with FakeLlama([say("word " * 5000)]) as server:
        process = subprocess.Popen(
            [*CLI, "--server", server.url, "-p", "go"],
            env=environment(tmp_path),
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdout and process.stderr
        process.stdout.close()
        err = process.stderr.read()
        process.wait(30)
    assert b"Traceback" not in err and b"Exception ignored" not in err


@pytest.mark.parametrize(
    "arguments",
    [["--profile", "a" * 300], ["-r", "a" * 300], ["--server", ""], ["--profile", ""], ["-C", ""], ["--add-dir", ""]],
)
def test_a_value_that_cannot_be_one_is_a_usage_error(tmp_path: Path, arguments: list[str]) -> None:
    done = run(tmp_path, *arguments, "-p", "hi")
    assert done.returncode == 2 and "Traceback" not in done.stderr


def test_a_home_of_nobody_is_a_usage_error(tmp_path: Path) -> None:
    profile = tmp_path / "dflash" / "config" / "profiles" / "mine.toml"
    profile.parent.mkdir(parents=True)
    profile.write_text('[model]\nkind = "file"\npath = "~no-such-user/x.gguf"\n')
    assert "no home folder for" in run(tmp_path, "--profile", "mine", "-p", "hi").stderr
    env = environment(tmp_path) | {"DFLASH_HOME": "~no-such-user/x"}
    done = subprocess.run([*CLI, "-p", "hi"], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "must be an absolute path" in done.stderr


@pytest.mark.parametrize("redirect", [">&-", ">/dev/full"])
def test_an_answer_that_cannot_be_written_is_one_sentence(tmp_path: Path, redirect: str) -> None:
    with FakeLlama([say("hello")]) as server:
        script = f'"$@" {redirect}'
        done = subprocess.run(
            ["bash", "-c", script, "bash", *CLI, "--server", server.url, "-p", "hi"],
            env=environment(tmp_path),
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    assert done.returncode in (1, 2)
    assert "tandard output" in done.stderr.splitlines()[-1] and "Traceback" not in done.stderr


def test_acceptance_of_a_server_that_only_counts_is_the_difference_of_its_counters(tmp_path: Path) -> None:
    def page(drafted: int, accepted: int) -> str:
        names = "vllm:spec_decode_num_draft_tokens_total", "vllm:spec_decode_num_accepted_tokens_total"
        return f"{names[0]} {drafted}\n{names[1]} {accepted}\n"

    words = [chunk({"content": "hello"}), chunk({}, "stop")]
    usage = {"prompt_tokens": 5, "completion_tokens": 50, "total_tokens": 55}
    with FakeLlama([[*words, {"data": {"choices": [], "usage": usage}}]]) as server:
        server.metrics = [page(1000, 400), page(1040, 430)]
        done = run(tmp_path, "--server", server.url, "-p", "hi", "--output-format", "json")
    stats = json.loads(done.stdout)["stats"]
    assert (stats["draft_tokens"], stats["accepted_tokens"], stats["acceptance"]) == (40, 30, 0.75), done.stderr
    assert stats["tokens_per_step"] == 2.5 and stats["tokens_per_second"] is None


def in_shell(home: Path, redirect: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", f'"$@" {redirect}', "bash", *CLI, *arguments],
        env=environment(home),
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("redirect", ["2>&-", "<&-", "<&- 2>&-", "2>/dev/full"])
def test_a_closed_or_full_stream_that_is_not_the_answers_changes_nothing(tmp_path: Path, redirect: str) -> None:
    project = tmp_path / "project"
    project.mkdir()
    with FakeLlama([call("bash", command="echo hi >&2"), say("hello")]) as server:
        arguments = ("--server", server.url, "-C", str(project), "--permission-mode", "auto", "-p", "hi")
        done = in_shell(tmp_path, redirect, *arguments)
    assert (done.returncode, done.stdout) == (0, "hello\n")
    assert done.stderr.splitlines() in ([], ["engine: looking at " + server.url])


@pytest.mark.parametrize("redirect", ["2>&-", "2>/dev/full"])
def test_without_stderr_the_exit_code_still_tells(tmp_path: Path, redirect: str) -> None:
    assert in_shell(tmp_path, redirect, "--profile", "nonsense", "-p", "hi").returncode == 2


@pytest.mark.parametrize("output", ["text", "json", "stream-json"])
def test_a_reader_that_goes_away_stops_the_generation(tmp_path: Path, output: str) -> None:
    with FakeLlama([say("word", hold=True)]) as server:
        process = subprocess.Popen(
            [*CLI, "--server", server.url, "-p", "go", "--output-format", output],
            env=environment(tmp_path),
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdout and process.stderr and server.held.wait(30)
        process.stdout.close()
        assert process.wait(30) == 1 and b"Trace" not in process.stderr.read()
        assert server.disconnected.wait(10)


def test_what_a_start_says_is_said_once_and_cannot_steer_the_terminal(tmp_path: Path) -> None:
    engine = tmp_path / "dflash" / "data" / "engines" / "some"
    engine.mkdir(parents=True)
    binary = engine / "llama-server"
    binary.write_text(
        f"#!/bin/sh\ncase $1 in --help) cat '{HELP['llama.cpp']}' ;; --list-devices) ;; "
        "*) printf 'bad \\033[31m\\007 bytes\\n'; exit 3 ;; esac\n"
    )
    binary.chmod(0o755)
    facts = {"binary": "llama-server", "version": "v1", "backend": "cpu", "built_at": "2026-01-01"}
    (engine / "manifest.json").write_text(json.dumps(facts | {"cmake_flags": [], "binary_sha256": ""}))
    profile = tmp_path / "dflash" / "config" / "profiles" / "mine.toml"
    profile.parent.mkdir(parents=True)
    profile.write_text(f"ctx = 512\n[model]\nkind = 'file'\npath = '{make_tiny(tmp_path).target}'\n")
    done = run(tmp_path, "--profile", "mine", "-p", "hi")
    lines = done.stderr.splitlines()
    assert done.returncode == 3 and len(lines) == len(set(lines)), done.stderr
    assert sum("status 3" in line for line in lines) == 1
    assert "bytes" in done.stderr and "\x1b" not in done.stderr and "\x07" not in done.stderr


def test_compact_runs_without_a_screen_and_the_session_goes_on_shorter(tmp_path: Path) -> None:
    words = "word " * 1200
    with FakeLlama([say(words), say("THE SUMMARY"), say("fine")]) as server:
        run(tmp_path, "--server", server.url, "-p", "remember 42")
        done = run(
            tmp_path, "--server", server.url, "-c", "--output-format", "stream-json", "-p", "/compact the number"
        )
        run(tmp_path, "--server", server.url, "-c", "-p", "what was it")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["event"] for line in lines] == ["Compacted", "Result"] and done.returncode == 0
    assert lines[1]["status"] == "done" and lines[1]["stats"]["requests"] == 1
    assert "Compacted: 2 messages became a summary" in done.stderr
    asked, after = server.requests[1], server.requests[2]
    assert asked["tool_choice"] == "none" and "the number" in asked["messages"][-1]["content"]
    assert asked["messages"][:2] == server.requests[0]["messages"], "the server has read that already"
    (_, user) = after["messages"]
    assert all(part in user["content"] for part in ("remember 42", "THE SUMMARY", "what was it"))
    assert words[:100] not in user["content"]


def test_a_command_that_cannot_be_done_says_why_and_begins_no_turn(tmp_path: Path) -> None:
    with FakeLlama([say("ok")]) as server:
        run(tmp_path, "--server", server.url, "-p", "hi")
        nothing = run(tmp_path, "--server", server.url, "-c", "-p", "/compact")
        wrong = run(tmp_path, "--server", server.url, "-c", "--output-format", "json", "-p", "/speed fast")
    assert nothing.returncode == 0 and "nothing to compact" in nothing.stdout
    result = json.loads(wrong.stdout)
    assert wrong.returncode == 1 and result["status"] == "failed" and "/speed all" in result["error"]["message"]
    assert len(server.requests) == 1


def test_help_without_a_screen_lists_what_makes_sense_there_and_nothing_else(tmp_path: Path) -> None:
    with FakeLlama() as server:
        done = run(tmp_path, "--server", server.url, "-p", "/help")
        refused = run(tmp_path, "--server", server.url, "-p", "/resume")
    names = [line.split()[0] for line in done.stdout.splitlines() if line.startswith("/")]
    assert done.returncode == 0 and {"/help", "/compact", "/speed", "/permissions"} <= set(names)
    assert "/resume" not in names and not server.requests
    assert refused.returncode == 2 and "Without the screen there is no /resume; there are: " in refused.stderr


def test_the_speed_of_a_session_is_told_without_a_screen(tmp_path: Path) -> None:
    with FakeLlama([say("one two three")]) as server:
        run(tmp_path, "--server", server.url, "-p", "count")
        done = run(tmp_path, "--server", server.url, "-c", "-p", "/stats")
    assert done.stdout.startswith("turn") and "200" in done.stdout and "Where the time went" in done.stdout


def test_a_profile_without_figures_sends_no_sampling_and_thinking_stays_as_it_is(tmp_path: Path) -> None:
    with FakeLlama([say("ok")]) as server:
        run(tmp_path, "--server", server.url, "-p", "hi")
    assert not {"temperature", "top_k", "top_p", "min_p", "chat_template_kwargs"} & set(server.requests[0])
