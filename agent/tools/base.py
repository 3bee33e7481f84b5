"""What the built-in tools share: lenient parameters, and the description in a .md file beside each."""

from __future__ import annotations

from importlib import resources

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    """Local models add fields and write numbers as text; both are let through. Fields are flat scalars in alphabetical
    order, since Gemma renders arguments sorted."""

    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True, frozen=True)


def description_of(name: str) -> str:
    return (resources.files("agent") / "tools" / f"{name}.md").read_text(encoding="utf-8").strip()
