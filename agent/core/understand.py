"""From a call as the model wrote it to a tool and its checked parameters, step by step: read, put right by the schema,
check. What remains unclear is refused in one sentence that names the field and the expected form; nothing runs then."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from agent.core.coerce import coerced, complaint, expected
from agent.errors import ToolFailure
from agent.events import Mending
from agent.messages import ToolCall
from agent.protocols import CallReader, LateTools, Tool

_PREFIX = re.compile(r"^(?:functions?|tools?|default_api)[.:]", re.I)
FAULTS_NAMED = 5


@dataclass(frozen=True, slots=True)
class Understood:
    tool: Tool
    params: BaseModel
    mending: tuple[Mending, ...]


class Understanding:
    """All tools by name, with their schemas. `late` knows those that came after the tool list was fixed."""

    def __init__(self, tools: Iterable[Tool], reader: CallReader, late: LateTools | None = None) -> None:
        self._tools: Mapping[str, Tool] = {t.name: t for t in tools}
        self._reader = reader
        self._late = late
        self._schemas: dict[str, Mapping[str, Any]] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._tools)

    def of(self, call: ToolCall) -> Understood:
        """Raises ToolFailure with what the model should read."""
        tool = self._find(call.name)
        if tool is None:
            raise ToolFailure(f"There is no tool named {call.name!r}. The tools are: {', '.join(self._tools)}.")
        schema = self._schema(tool)
        read = self._reader.arguments(call.arguments)
        if read.fields is None:
            raise ToolFailure(
                f"Not run: the arguments of {tool.name} cannot be read: {read.fault}. "
                f"Send it again as one JSON object: {expected(tool.name, schema)}."
            )
        fields, changed = coerced(read.fields, schema)
        try:
            params = tool.params.model_validate(fields)
        except ValidationError as error:
            faults = [(".".join(map(str, e["loc"])), e["type"], e["msg"], e["input"]) for e in error.errors()]
            said = complaint(faults[:FAULTS_NAMED], schema)
            raise ToolFailure(f"Not run: {said}. Expected: {expected(tool.name, schema)}.") from error
        mending: list[Mending] = []
        if read.mended:
            mending.append("repaired")
        if changed or tool.name != call.name:
            mending.append("coerced")
        return Understood(tool, params, tuple(mending))

    def _find(self, name: str) -> Tool | None:
        """By its name, or by that name in other letters, with the prefix or the brackets that some models add."""
        if tool := self._tools.get(name):
            return tool
        wanted = _same(_PREFIX.sub("", name.split("<|", 1)[0].strip().removesuffix("()")))
        found = [t for n, t in self._tools.items() if _same(n) == wanted]
        return found[0] if len(found) == 1 else self._late.tool(name) if self._late else None

    def _schema(self, tool: Tool) -> Mapping[str, Any]:
        if tool.name not in self._schemas:
            self._schemas[tool.name] = tool.params.model_json_schema()
        return self._schemas[tool.name]


def _same(name: str) -> str:
    return name.lower().replace("-", "_")
