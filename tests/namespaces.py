"""Programs in namespaces of their own: a network of loopback alone, a small disk. What the kernel must allow for that
is told where it does not."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

import pytest

NEEDED = (
    "This test needs unprivileged user namespaces ({0} true must work): run it outside of a restricting container, or "
    "set sysctl kernel.unprivileged_userns_clone=1 and kernel.apparmor_restrict_unprivileged_userns=0."
)


def unshared(what: str, argv: Sequence[str], before: str) -> list[str]:
    """argv of the program in a user namespace with `what` (n: network, m: mounts) apart; the shell line `before` runs
    first. Where the kernel forbids it the test fails in CI and is skipped elsewhere."""
    prefix = ["unshare", f"-r{what}"]
    try:
        able = not subprocess.run([*prefix, "true"], capture_output=True, timeout=20).returncode
    except FileNotFoundError:
        able = False
    if not able:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(NEEDED.format(" ".join(prefix)))
    return [*prefix, "sh", "-c", f'{before} && exec "$@"', "sh", *argv]
