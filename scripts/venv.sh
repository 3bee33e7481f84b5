# shellcheck shell=bash
# Sourced by run.sh and test.sh: finds a Python, and keeps a virtual environment in step with pyproject.toml.

say() { printf '%s\n' "$1" >&2; }

find_python() {
    local name
    for name in python3 python3.14 python3.13 python3.12 python3.11 python; do
        if command -v "$name" >/dev/null 2>&1 &&
            "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            printf '%s' "$name"
            return
        fi
    done
    say "Python 3.11 or newer is missing. Install it: apt install python3 python3-venv · dnf install python3 · pacman -S python"
    return 2
}

make_venv() { # make_venv FOLDER REQUIREMENT: editable install of REQUIREMENT (a folder, perhaps with [extra])
    local venv=$1 what=$2 python stamp
    # shellcheck disable=SC2154  # root is the sourcing script's
    stamp=$(sha256sum <"$root/pyproject.toml" | cut -d' ' -f1)-$what
    [ -x "$venv/bin/python" ] && [ "$(cat "$venv/stamp" 2>/dev/null)" = "$stamp" ] && return
    python=$(find_python) || exit 2
    say "Setting up $venv (once) ..."
    if ! "$python" -c 'import venv, ensurepip' >/dev/null 2>&1; then
        say "Python's venv module is missing. Install it: apt install python3-venv"
        exit 2
    fi
    rm -rf "$venv"
    "$python" -m venv "$venv" || { say "Cannot make a virtual environment in $venv."; exit 1; }
    # some environments forbid .pyc files, which makes every start three times slower
    if ! env -u PYTHONDONTWRITEBYTECODE "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
        --no-input --compile -e "$what" >&2; then
        rm -rf "$venv"
        say "The packages could not be installed. Check the network and pip's settings, then start again."
        exit 1
    fi
    env -u PYTHONDONTWRITEBYTECODE "$venv/bin/python" -m compileall -q "$root/agent" >&2 || true
    printf '%s' "$stamp" >"$venv/stamp"
}
