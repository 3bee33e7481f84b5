"""The real engine and the small model. A missing one is a failure with the way to get it, never a skip."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def _from_environment(name: str) -> Path:
    value = os.environ.get(name, "")
    if not value or not Path(value).is_file():
        pytest.fail(f"{name} names no file; run the tests with scripts/test.sh, which builds the engine.")
    return Path(value)


@pytest.fixture(scope="session")
def binary() -> Path:
    return _from_environment("DFLASH_TEST_ENGINE")


@pytest.fixture(scope="session")
def servers() -> Path:
    """The folder of the real MCP servers: Python ones in bin, Node ones in node_modules/.bin."""
    folder = Path(os.environ.get("DFLASH_TEST_SERVERS", ""))
    if not (folder / "done").is_file():
        pytest.fail("DFLASH_TEST_SERVERS names no servers; run the tests with scripts/test.sh, which installs them.")
    return folder


@pytest.fixture(scope="session")
def smollm2() -> Path:
    return _from_environment("DFLASH_TEST_MODEL")
