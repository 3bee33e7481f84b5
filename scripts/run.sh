#!/usr/bin/env bash
# Makes a virtual environment beside this checkout, puts the package into it, and runs dflash-agent with the arguments
# given, in the folder of the caller. The set-up speaks on stderr only: stdout belongs to dflash-agent.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=scripts/venv.sh
. "$root/scripts/venv.sh"

make_venv "$root/.venv" "$root"
exec "$root/.venv/bin/dflash-agent" "$@"
