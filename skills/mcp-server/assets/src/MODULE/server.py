"""The MCP server: what a model may call. Each tool is a typed function; its docstring is what the model reads.

Standard output belongs to the protocol: never print. Say things with logging, which goes to standard error.
"""

from typing import Annotated

from mcp.server import MCPServer
from pydantic import Field

from MODULE.core import word_count

server = MCPServer("NAME")


@server.tool()
def count_words(text: Annotated[str, Field(description="the text to count in")]) -> int:
    """Count the words of a text."""
    return word_count(text)


def main() -> None:
    server.run()


if __name__ == "__main__":
    main()
