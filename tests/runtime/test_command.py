"""What the engine is given beside its command line (which tests/runtime/test_argv.py holds)."""

from __future__ import annotations

from pathlib import Path

from agent.runtime.command import engine_environment


def test_the_engine_sees_our_key_and_nothing_that_would_change_it() -> None:
    env = {
        "PATH": "/bin",
        "LLAMA_ARG_CTX_SIZE": "1",
        "HF_TOKEN": "t",
        "https_proxy": "p",
        "HTTP_PROXY": "p",
        "HOME": "/h",
    }
    made = engine_environment(env, "secret", Path("/logs"))
    assert made["LLAMA_API_KEY"] == "secret" and made["PATH"] == "/bin" and made["GGML_NO_BACKTRACE"] == "1"
    assert not made.keys() & {"LLAMA_ARG_CTX_SIZE", "HF_TOKEN", "https_proxy", "HTTP_PROXY"}
    assert made["XDG_CONFIG_HOME"] == "/logs"
