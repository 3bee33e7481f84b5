"""The server as a client meets it: in this process, and as a program of its own."""

import os
import sys

from mcp import Client, StdioServerParameters

from MODULE.server import server


async def test_the_tools_are_listed_with_a_description() -> None:
    async with Client(server) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert tools["count_words"].description
    assert tools["count_words"].input_schema["required"] == ["text"]


async def test_a_tool_answers() -> None:
    async with Client(server) as client:
        result = await client.call_tool("count_words", {"text": "one two  three"})
    assert not result.is_error
    assert result.structured_content == {"result": 3}


async def test_a_wrong_call_is_an_error_the_model_can_read() -> None:
    async with Client(server) as client:
        result = await client.call_tool("count_words", {})
    assert result.is_error and "text" in result.content[0].text


async def test_it_runs_as_a_program() -> None:
    program = StdioServerParameters(
        command=sys.executable, args=["-m", "MODULE.server"], env=dict(os.environ)
    )
    async with Client(program, read_timeout_seconds=30) as client:
        result = await client.call_tool("count_words", {"text": "hello"})
    assert result.structured_content == {"result": 1}
