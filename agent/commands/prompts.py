"""Prompts of MCP servers as slash commands: what is written behind the name becomes their arguments."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence

from agent.commands.base import Answer, Ask, Command, Completions, Said
from agent.core.forms import Filled
from agent.errors import AgentError
from agent.forms import Form, FormField
from agent.mcp_servers import McpPrompt

Values = Callable[[str, str, Mapping[str, str]], Sequence[str]]  # argument, what is written of it, those before it


def prompt_command(
    prompt: McpPrompt,
    get: Callable[[Mapping[str, str]], Awaitable[str]],
    fill: Callable[[Form], Awaitable[Filled]] | None,
    values: Values,
) -> Command:
    """`get` has the server make the message. `fill` asks for what is missing; None: nobody is there. `values`: what may
    be meant by a value, as far as it is known already."""
    names = [a.name for a in prompt.arguments]

    async def run(argument: str) -> Answer:
        given = arguments_of(prompt, argument)
        if missing := [a for a in prompt.arguments if a.required and not given.get(a.name)]:
            if fill is None:
                wanted = ", ".join(a.name for a in missing)
                raise AgentError(f"/{prompt.qualified} needs {wanted}: /{prompt.qualified} {usage_of(prompt)}")
            filled = await fill(form_of(prompt, given))
            if filled.choice != "send":
                return Said(f"/{prompt.qualified} was not sent.")
            given = {name: str(value) for name, value in filled.content.items()}
        line = f"/{prompt.qualified} {argument}".strip()
        return Ask(await get(given), line)

    def complete(written: str) -> Completions:
        *before, last = written.split(" ")
        given = {n: v for n, _, v in (word.partition("=") for word in before) if n in names}
        name, equals, value = last.partition("=")
        head = "".join(f"{word} " for word in before)
        if equals and name in names:
            return [(f"{head}{name}={shlex.quote(v)}", "") for v in values(name, value, given)]
        # an optional one is offered once it is begun: Enter must send what is complete
        open_ones = [a for a in prompt.arguments if a.name not in given and (last or a.required)]
        return [(f"{head}{a.name}=", a.about) for a in open_ones if a.name.startswith(last)]

    about = prompt.about or f"a prompt of the MCP server {prompt.server}"
    return Command(prompt.qualified, about, run, usage_of(prompt), headless=True, complete=complete)


def usage_of(prompt: McpPrompt) -> str:
    return " ".join(f"{a.name}=…" if a.required else f"[{a.name}=…]" for a in prompt.arguments)


def arguments_of(prompt: McpPrompt, written: str) -> dict[str, str]:
    """`name=value`, and values alone in the order of the arguments that are not named; the last of them takes all that
    is left. Raises AgentError where there is more than is wanted."""
    names = [a.name for a in prompt.arguments]
    try:
        words = shlex.split(written)
    except ValueError:  # a quote that is not closed is one that is meant
        words = written.split()
    given: dict[str, str] = {}
    alone: list[str] = []
    for word in words:
        name, equals, value = word.partition("=")
        if equals and name in names:
            given[name] = value
        else:
            alone.append(word)
    free = [name for name in names if name not in given]
    if alone and not free:
        takes = usage_of(prompt) or "no arguments"
        raise AgentError(f"/{prompt.qualified} takes {takes}; there is no place for {' '.join(alone)!r}.")
    if len(free) == 1 and len(alone) == len(words):
        return {free[0]: written} if alone else {}
    if len(alone) > len(free):
        alone = [*alone[: len(free) - 1], " ".join(alone[len(free) - 1 :])]
    return given | dict(zip(free, alone, strict=False))


def form_of(prompt: McpPrompt, given: Mapping[str, str]) -> Form:
    fields = tuple(
        FormField(a.name, a.name, about=a.about, value=given.get(a.name), required=a.required) for a in prompt.arguments
    )
    choices = (("send", "send"), ("cancel", "cancel"))
    return Form(f"/{prompt.qualified}", prompt.about, choices, fields)
