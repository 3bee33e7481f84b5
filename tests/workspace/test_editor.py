from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent.errors import ConfigError
from agent.workspace.editor import edit


def env(**more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"]} | more


def test_what_the_editor_wrote_comes_back(tmp_path: Path) -> None:
    script = tmp_path / "my editor"
    script.write_text('#!/bin/sh\nsed -i "s/sea/ocean/" "$2"; echo "more $1" >> "$2"\n')
    script.chmod(0o755)
    assert edit("the sea", env(EDITOR=f'"{script}" -x')) == "the ocean\nmore -x"


def test_visual_comes_before_editor() -> None:
    assert edit("same", env(VISUAL="true", EDITOR="false")) == "same"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"EDITOR": "false"}, "ended with status 1"),
        ({"EDITOR": "/nowhere/ed"}, "Cannot run the editor"),
        ({"EDITOR": "vi 'open"}, r"\$EDITOR cannot be read"),
        ({"PATH": "/nowhere"}, "set EDITOR"),
    ],
)
def test_an_editor_that_fails_is_named(settings: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        edit("text", env(**settings))
