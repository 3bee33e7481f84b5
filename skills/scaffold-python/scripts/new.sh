#!/bin/sh
# new.sh NAME [VARIANT]: copies this skill's template into the current folder, under that name. Overwrites nothing.
set -eu
fail() {
    echo "new.sh: $1" >&2
    exit 2
}
[ -n "${1:-}" ] || fail "which name? new.sh NAME [VARIANT]"
name=$(printf '%s' "$1" | tr 'A-Z_. ' 'a-z---')
module=$(printf '%s' "$name" | tr '-' '_')
case $module in
*[!a-z0-9_]* | [0-9_]* | *_) fail "$1 is no good name; use letters, digits and hyphens, a letter first" ;;
esac
assets=$(cd "$(dirname "$0")/../assets${2:+/$2}" 2>/dev/null && pwd) || fail "there is no variant $2"
if find "$assets" | grep -q MODULE; then
    case $module in test | tests | src) fail "$module is taken by the layout; choose another name" ;; esac
    python3 -c 'import sys; sys.exit(sys.argv[1] in sys.stdlib_module_names)' "$module" ||
        fail "Python has a module $module of its own; choose another name"
fi
(cd "$assets" && find . -type f | sort) | while read -r file; do
    target=$(printf '%s' "${file#./}" | sed -E "s/MODULE/$module/g; s/^(gitignore|mcp\.json)\$/.\1/")
    if [ -e "$target" ]; then
        echo "kept  $target (it was there)"
        continue
    fi
    case $target in */*) mkdir -p "${target%/*}" ;; esac
    sed "s/NAME/$name/g; s/MODULE/$module/g" "$assets/$file" >"$target"
    echo "made  $target"
done
