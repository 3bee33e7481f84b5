"""The protocol's own conformance suites for clients, run against our pool. docs/mcp.md says which scenarios are left
out, and why."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCENARIOS = (
    *("initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry"),
    *("auth/metadata-default", "auth/metadata-var1", "auth/metadata-var2", "auth/metadata-var3"),
    *("auth/scope-from-www-authenticate", "auth/scope-from-scopes-supported", "auth/scope-omitted-when-undefined"),
    *("auth/scope-step-up", "auth/scope-retry-limit", "auth/token-endpoint-auth-basic"),
    *("auth/token-endpoint-auth-post", "auth/token-endpoint-auth-none", "auth/pre-registration"),
    *("auth/2025-03-26-oauth-endpoint-fallback", "auth/resource-mismatch", "auth/offline-access-scope"),
    "auth/offline-access-not-supported",
)


MODERN = (
    *("tools_call", "request-metadata", "sep-2322-client-request-state", "http-standard-headers"),
    *("http-custom-headers", "http-invalid-tool-headers", "json-schema-ref-no-deref"),
    *("json-schema-2020-12-preservation", "auth/authorization-server-migration", "auth/iss-wrong-issuer"),
    "auth/metadata-issuer-mismatch",
)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_client_passes_the_scenario(scenario: str, servers: Path, tmp_path: Path) -> None:
    passes(servers, scenario, tmp_path)


@pytest.mark.parametrize("scenario", MODERN)
def test_the_client_passes_the_scenario_of_the_newest_revision(scenario: str, servers: Path, tmp_path: Path) -> None:
    passes(servers / "modern", scenario, tmp_path, "--spec-version", "2026-07-28")


def passes(folder: Path, scenario: str, tmp_path: Path, *more: str) -> None:
    suite = folder / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    client = f"{sys.executable} -m tests.fakes.mcp_client {tmp_path}"
    done = subprocess.run(
        [
            Path(os.environ["DFLASH_TEST_SERVERS"]) / "bin" / "node",
            suite,
            "client",
            "--command",
            client,
            "--scenario",
            scenario,
            "-o",
            tmp_path / "out",
            *more,
        ],
        cwd=Path(__file__).parents[3],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert "OVERALL: PASSED" in done.stdout + done.stderr, (done.stdout + done.stderr)[-3000:]
