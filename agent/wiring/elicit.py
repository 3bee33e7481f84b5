"""What an MCP server wants to know from the user, as a question of the screen: its flat schema becomes fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from agent.config.foreign import mapping
from agent.core.session import Session
from agent.forms import Form, FormField
from agent.tools.mcp.host import Elicitation, Elicited


async def elicit(wish: Elicitation, session: Session) -> Elicited:
    choice = (reply := await session.forms.ask(form_of(wish))).choice
    if choice == "accept":
        return Elicited("accept", reply.content)
    return Elicited("decline" if choice == "decline" else "cancel")


def form_of(wish: Elicitation) -> Form:
    title = f"MCP server {wish.server} asks"
    if wish.url:
        text = (
            f"{wish.message}\n\nIt wants you to open:\n{wish.url}\nOpen it in your browser if you trust this address."
        )
        return Form(title, text, (("accept", "I have opened it"), ("decline", "no"), ("cancel", "later")), default=2)
    fields = mapping(wish.schema.get("properties"))
    required = wish.schema.get("required")
    names = cast("list[Any]", required) if isinstance(required, list) else []
    return Form(
        title,
        wish.message,
        (("accept", "send"), ("decline", "decline"), ("cancel", "cancel")),
        tuple(_field(name, mapping(schema), name in names) for name, schema in fields.items()),
    )


def _field(name: str, schema: Mapping[str, Any], required: bool) -> FormField:
    title, about = str(schema.get("title") or name), str(schema.get("description") or "")
    kind, default = schema.get("type"), schema.get("default")
    options = _options(schema)
    if kind == "array":
        taken = tuple(str(v) for v in cast("list[Any]", default)) if isinstance(default, list) else ()
        least, most = _number(schema.get("minItems")), _number(schema.get("maxItems"))
        options = _options(mapping(schema.get("items")))
        return FormField(name, title, "choices", about, taken, required, options, least, most)
    value = default if isinstance(default, str | int | float | bool) else None
    if options:
        return FormField(name, title, "choice", about, value, required, options)
    if kind == "boolean":
        return FormField(name, title, "boolean", about, value, required)
    if kind in ("integer", "number"):
        least, most = _number(schema.get("minimum")), _number(schema.get("maximum"))
        return FormField(name, title, kind, about, value, required, (), least, most)
    least, most = _number(schema.get("minLength")), _number(schema.get("maxLength"))
    return FormField(name, title, "text", about, value, required, (), least, most, str(schema.get("format") or ""))


def _options(schema: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """(value, words) of the four spellings that the protocol has had for choices."""
    titled = schema.get("oneOf") or schema.get("anyOf")
    if isinstance(titled, list):
        found = [mapping(option) for option in cast("list[Any]", titled)]
        return tuple((str(o["const"]), str(o.get("title") or o["const"])) for o in found if "const" in o)
    values, names = schema.get("enum"), schema.get("enumNames")
    if not isinstance(values, list):
        return ()
    texts = [str(v) for v in cast("list[Any]", values)]
    words = [str(n) for n in cast("list[Any]", names)] if isinstance(names, list) else texts
    return tuple(zip(texts, words, strict=False)) if len(words) == len(texts) else tuple((t, t) for t in texts)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
