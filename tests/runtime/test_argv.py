"""The command line of each dialect, profile and rung, word for word in tests/golden/argv. To write them anew after a
wanted change: `DFLASH_GOLDEN=write scripts/test.sh -- tests/runtime/test_argv.py`, then read the diff."""

from __future__ import annotations

import os
import shlex
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.config.profile import Profile, known_profiles, load_profile
from agent.errors import RuntimeFailure
from agent.runtime.command import Files, build_command, engine_environment, ladder
from agent.runtime.dialect import Dialect
from agent.runtime.plan import Plan
from agent.runtime.process import run_lines
from tests.planners import Wished
from tests.runtime.dialects import GOLDEN, HELP, dialect

PORT = 4711
FILES = Files(Path("{binary}"), Path("{model}"), Path("{draft}"), Path("{mtp}"))

# The two command lines of the guide, for BeeLlama 0.2-0.3:
# https://www.datacamp.com/tutorial/how-to-speed-up-local-llms-with-dflash-speculative-decoding
GUIDE_BASELINE = """-m {model} --host 0.0.0.0 --port 8910 -np 1 -ngl all -b 2048 -ub 512 --ctx-size 32768
--cache-type-k q5_0 --cache-type-v q4_1 --flash-attn on --jinja --metrics --log-timestamps --log-prefix --reasoning off
--temp 0.7 --top-k 64 --top-p 0.95 --min-p 0.0"""
GUIDE_DFLASH = """-m {model} --spec-draft-model {draft} --spec-type dflash --spec-dflash-cross-ctx 1024 --host 0.0.0.0
--port 8910 -np 1 --kv-unified -ngl all --spec-draft-ngl all -b 2048 -ub 512 --ctx-size 32768 --flash-attn on
--cache-ram 0 --jinja --no-mmap --mlock --no-host --metrics --log-timestamps --log-prefix --reasoning off --temp 0.7
--top-k 64 --top-p 0.95 --min-p 0.0"""
LONG = {"-m": "--model", "-np": "--parallel", "-ngl": "--gpu-layers", "-b": "--batch-size", "-ub": "--ubatch-size"}
OURS = {
    "--host": "127.0.0.1",  # nobody else may reach it
    "--port": str(PORT),
    "--alias": "Gemma 4 31B",
    "--cache-ram": "512",  # the guide's 0 makes every return to a conversation a whole prefill
    "--ctx-checkpoints": "4",  # a sliding window is rewound by these; the default of 32 takes 1 GB of memory each
    "--no-webui": "",
    "--log-timestamps": None,  # the log is shown as last words; ours are short lines
    "--log-prefix": None,
}


def cases() -> Iterator[tuple[str, str, str]]:
    for dialect_name in HELP:
        for profile in known_profiles([]):
            for rung in ladder(load_profile(profile, []), dialect(dialect_name)):
                yield dialect_name, profile, rung


def show(argv: list[str]) -> str:
    """A flag with its value on each line."""
    lines: list[str] = []
    for word in argv:
        if word.startswith("-") or not lines or not lines[-1].startswith("-"):
            lines.append(word)
        else:
            lines[-1] += f" {word}"
    return "\n".join(lines) + "\n"


def flags(argv: list[str]) -> dict[str, str]:
    pairs = (line.partition(" ") for line in show(argv).splitlines())
    return {LONG.get(flag, flag): value for flag, _, value in pairs if flag.startswith("-")}


def built(dialect_name: str, profile: str, rung: str) -> list[str]:
    loaded = load_profile(profile, [])
    return build_command(loaded, dialect(dialect_name), Wished(loaded).first("plain"), FILES, rung, PORT)  # type: ignore[arg-type]


@pytest.mark.parametrize(("dialect_name", "profile", "rung"), list(cases()))
def test_the_command_line_is_the_golden_one(dialect_name: str, profile: str, rung: str) -> None:
    file = GOLDEN / "argv" / f"{dialect_name}-{profile}-{rung}.txt"
    text = show(built(dialect_name, profile, rung))
    if os.environ.get("DFLASH_GOLDEN") == "write":
        file.write_text(text)
    assert text == file.read_text()


def test_no_golden_file_is_left_over() -> None:
    assert {f.name for f in (GOLDEN / "argv").iterdir()} == {"-".join(c) + ".txt" for c in cases()}


def test_dflash_on_beellama_0_3_is_the_guides_command_line_but_for_what_is_named() -> None:
    guide = flags(shlex.split(GUIDE_DFLASH))
    ours = OURS | {"--spec-draft-n-max": "15"}  # the guide leaves it at the engine's default of 16
    wanted = {flag: value for flag, value in (guide | ours).items() if value is not None}
    assert flags(built("beellama-0.2", "gemma4-31b-dflash", "dflash")) == wanted


def test_the_baseline_is_the_guides_command_line_but_for_what_is_named() -> None:
    guide = flags(shlex.split(GUIDE_BASELINE))
    # as beside DFlash, so that the two differ in speculation alone
    ours = OURS | {"--kv-unified": "", "--no-host": "", "--no-mmap": "", "--mlock": ""}
    wanted = {flag: value for flag, value in (guide | ours).items() if value is not None}
    plan = Plan(32768, "q5_0", "q4_1", gpu=True, mlock=True)
    argv = build_command(load_profile("gemma4-31b", []), dialect("beellama-0.2"), plan, FILES, "plain", PORT)
    assert flags(argv) == wanted


@pytest.mark.parametrize("name", HELP)
def test_the_rungs_of_a_profile_differ_in_speculation_alone(name: str) -> None:
    def rest(rung: str) -> dict[str, str]:
        argv = flags(built(name, "gemma4-31b-dflash", rung))
        return {flag: value for flag, value in argv.items() if not flag.startswith("--spec-")}

    rungs = ladder(load_profile("gemma4-31b-dflash", []), dialect(name))
    assert all(rest(rung) == rest("plain") for rung in rungs)
    assert flags(built(name, "gemma4-31b-dflash", "plain")) == rest("plain")


def test_memory_is_locked_and_mapped_as_planned_in_either_spelling() -> None:
    smoke = load_profile("smoke", [])

    def modes(speaks: Dialect, gpu: bool, mlock: bool) -> set[str]:
        argv = show(build_command(smoke, speaks, Plan(1024, gpu=gpu, mlock=mlock), FILES, "plain", 1)).splitlines()
        return {line for line in argv if line.startswith(("--load-mode", "--no-mmap", "--mlock"))}

    new, old = dialect("llama.cpp"), dialect("beellama-0.2")
    assert modes(new, True, True) == {"--load-mode mlock"} and modes(old, True, True) == {"--no-mmap", "--mlock"}
    assert modes(new, True, False) == {"--load-mode none"} and modes(old, True, False) == {"--no-mmap"}
    assert modes(new, False, True) == {"--load-mode mmap+mlock"} and modes(old, False, True) == {"--mlock"}
    assert modes(new, False, False) == set() == modes(old, False, False)


def test_what_a_profile_adds_goes_to_its_dialect_alone() -> None:
    smoke = load_profile("smoke", [])
    own = Profile.model_validate(
        smoke.model_dump() | {"thinking": True, "flags": {"any": ["--props"], "llama.cpp": ["--swa-full"]}}
    )
    up = build_command(own, dialect("llama.cpp"), Plan(512), FILES, "plain", 1)
    bee = build_command(own, dialect("beellama-0.4"), Plan(512), FILES, "plain", 1)
    assert up[-2:] == ["--props", "--swa-full"] and bee[-1] == "--props" and "--reasoning" not in up + bee


def test_a_rung_that_cannot_be_is_refused() -> None:
    smoke, gemma = load_profile("smoke", []), load_profile("gemma4-31b-dflash", [])
    for profile, name, rung, files in (
        (smoke, "llama.cpp", "dflash", FILES),
        (gemma, "beellama-0.2", "mtp", FILES),
        (gemma, "llama.cpp", "dflash", Files(Path("b"), Path("m"))),
    ):
        with pytest.raises(RuntimeFailure, match=rung):
            build_command(profile, dialect(name), Plan(1024), files, rung, 1)  # type: ignore[arg-type]


@pytest.mark.real
@pytest.mark.parametrize("file", sorted((GOLDEN / "argv").glob("llama.cpp-*")), ids=lambda f: f.stem)
async def test_the_real_engine_takes_every_word_and_misses_only_the_model(
    file: Path, binary: Path, tmp_path: Path
) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    text = file.read_text().replace("{binary}", str(binary)).replace(f"--port {PORT}", f"--port {port}")
    argv = [word for line in text.splitlines() for word in line.split(" ", 1)]
    lines: list[str] = []
    environment = engine_environment(os.environ, "key", tmp_path)
    status = await run_lines(argv, env=environment, cwd=tmp_path, on_line=lines.append)
    said = "\n".join(lines)
    assert status == 1 and "failed to open GGUF file '{model}'" in said, said
    assert "argument" not in said, said
