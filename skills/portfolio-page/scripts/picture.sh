#!/bin/sh
# picture.sh [PAGE] [PNG] [WIDTHxHEIGHT]: takes a picture of a page with Chromium or Chrome, without a window.
set -eu
page=$(realpath "${1:-index.html}")
png=$(realpath -m "${2:-picture.png}")
size=${3:-1280x2200}
[ -f "$page" ] || { echo "picture.sh: there is no page $page" >&2 && exit 2; }
for browser in chromium chromium-browser google-chrome google-chrome-stable; do
    command -v "$browser" >/dev/null && break
    browser=
done
[ -n "$browser" ] || { echo "picture.sh: no Chromium or Chrome here; install one (Debian: apt install chromium)" >&2 && exit 3; }
profile=$(mktemp -d)
trap 'rm -rf "$profile"' EXIT
rm -f "$png"
sandbox=
[ "$(id -u)" != 0 ] || sandbox=--no-sandbox # Chromium refuses to run as root with its sandbox
timeout 60 "$browser" --headless $sandbox --disable-gpu --hide-scrollbars --no-first-run --user-data-dir="$profile" \
    --window-size="$(printf '%s' "$size" | tr x ,)" --screenshot="$png" "file://$page" >"$profile/log" 2>&1 || true
[ -s "$png" ] || { cat "$profile/log" >&2 && exit 1; }
echo "took $png ($size)"
