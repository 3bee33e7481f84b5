"""What the tools do. Knows nothing of MCP, so that it is easy to test."""


def word_count(text: str) -> int:
    return len(text.split())
