"""A new skill: a folder with all that one needs, ready to be filled in."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

from agent.errors import ConfigError
from agent.prompt.skills import DESCRIPTION, FILE, name_faults, slug

EXAMPLE = "Does … (what). Use when the user asks for … (when)."
SAMPLES = (
    ("A prompt, as a user would write it, that needs this skill.", True),
    ("The same wish in other words.", True),
    ("A longer prompt that needs it and does not name it.", True),
    ("Something near to it that does not need it.", False),
)


def new_skill(place: Path, name: str, description: str) -> Path:
    """Makes `place/name` and returns it. Raises ConfigError; nothing is overwritten."""
    if faults := name_faults(name):
        hint = f"; try {better}" if (better := slug(name)) else ""
        raise ConfigError(f"The name {name!r} {faults[0]}{hint}.")
    description = " ".join(description.split()) or EXAMPLE
    if len(description) > DESCRIPTION:
        raise ConfigError(f"The description has {len(description)} characters; {DESCRIPTION} at most.")
    folder = place / name
    template = (resources.files("agent") / "prompt" / "templates" / "skill.md").read_text(encoding="utf-8")
    quoted = json.dumps(description, ensure_ascii=False)  # a JSON text is a YAML text, whatever stands in it
    title = name.replace("-", " ").capitalize()
    text = template.replace("{name}", name).replace("{title}", title).replace("{description}", quoted)
    samples = [{"query": query, "should_trigger": wanted} for query, wanted in SAMPLES]
    try:
        folder.mkdir(parents=True)
        (folder / "references").mkdir()
        (folder / "evals").mkdir()
        (folder / FILE).write_text(text, encoding="utf-8")
        (folder / "evals" / "eval_queries.json").write_text(
            json.dumps(samples, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
        )
    except FileExistsError as error:
        raise ConfigError(f"{folder} exists already; nothing was changed.") from error
    except OSError as error:
        raise ConfigError(f"Cannot make {folder}: {error.strerror}.") from error
    return folder
