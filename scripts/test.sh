#!/usr/bin/env bash
# Runs all that CI runs: set-up, format, lint, types, tests. `scripts/test.sh -- ARGS` passes ARGS to pytest and runs
# nothing else after the set-up.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=scripts/venv.sh
. "$root/scripts/venv.sh"

cd "$root"
make_venv "$root/.venv-test" "${root}[dev]"
bin=$root/.venv-test/bin

# The real engine and the small model, kept outside the checkout and used again by every later run.
bash scripts/setup_beellama.sh --from sdist --backend cpu --yes >&2
mapfile -t found < <("$bin/python" -P -m agent.runtime.provision)
[ "${#found[@]}" -eq 2 ] || { say "The test engine or its model is missing."; exit 1; }
servers=$(bash scripts/mcp_servers.sh)
export DFLASH_TEST_SERVERS=$servers
export DFLASH_TEST_ENGINE=${found[0]} DFLASH_TEST_MODEL=${found[1]}

if [ "${1:-}" = "--" ]; then
    shift
    exec "$bin/python" -m pytest "$@"
fi
export RUFF_CACHE_DIR=$PWD/.ruff_cache  # the templates of the skills are projects of their own, and are copied whole
"$bin/ruff" format --check .
"$bin/ruff" check .
"$bin/pyright" --pythonpath "$bin/python"
exec "$bin/python" -m pytest
