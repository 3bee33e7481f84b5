"""`dflash-agent config`: what is settled, and which file settled it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from agent.config.settings import Loaded, Said, Settings
from agent.errors import ConfigError
from agent.speech import harmless

UNSAID = "default"


def run(
    verb: str, write: Callable[[str], None], file: Path, loaded: Callable[[], Loaded], key: str, *, as_json: bool
) -> int:
    """`file`: the user's own; `loaded`: what holds in this folder, the environment included. Raises AgentError."""
    match verb:
        case "path":
            write(f"{file}\n")
        case "show" if as_json:
            write(json.dumps(_rows(loaded()), indent=1, default=_plain) + "\n")
        case "show":
            write("".join(f"{line}\n" for line in shown(loaded())))
        case _:
            write("".join(f"{line}\n" for line in explained(loaded(), key)))
    return 0


def shown(loaded: Loaded) -> Sequence[str]:
    """One line a key: its value and whose it is; then what did not count."""
    rows = [(key, _text(row["value"]), str(row["source"])) for key, row in _rows(loaded).items()]
    widths = [max(len(row[i]) for row in rows) for i in (0, 1)]
    lines = [f"{key:<{widths[0]}}  {value:<{min(widths[1], 40)}}  {source}" for key, value, source in rows]
    return [harmless(line) for line in (*lines, *loaded.warnings)]


def explained(loaded: Loaded, key: str) -> Sequence[str]:
    """What it does and may be, and all that was said of it: the last that counts decides. Raises ConfigError."""
    field = Settings.model_fields.get(key)
    if field is None:
        raise ConfigError(f"There is no setting {key!r}; there are {', '.join(Settings.model_fields)}.")
    winner = _winner(loaded, key)
    words = [
        Said(key, field.get_default(call_default_factory=True), UNSAID),
        *(said for said in loaded.said if said.key == key),
    ]
    lines = [
        f"{key} = {_text(getattr(loaded.settings, key))}",
        f"It says {field.description}.",
        f"It may be {field.title}.",
        "",
    ]
    for said in words:
        mark = "→" if said is winner or (winner is None and said.source == UNSAID) else " "
        aside = "" if said.counts else "  (left out: it may only make things stricter)"
        lines.append(f"{mark} {said.source}: {_text(said.value)}{aside}")
    return [harmless(line) for line in lines]


def _winner(loaded: Loaded, key: str) -> Said | None:
    return next((said for said in reversed(loaded.said) if said.key == key and said.counts), None)


def _rows(loaded: Loaded) -> Mapping[str, Mapping[str, Any]]:
    winners = {key: _winner(loaded, key) for key in Settings.model_fields}
    return {
        key: {"value": getattr(loaded.settings, key), "source": winner.source if winner else UNSAID}
        for key, winner in winners.items()
    }


def _plain(value: BaseModel) -> Any:
    return value.model_dump()


def _text(value: Any) -> str:
    if isinstance(value, BaseModel):
        value = {key: texts for key, texts in value.model_dump().items() if texts}
    return json.dumps(value, ensure_ascii=False)
