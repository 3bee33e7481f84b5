"""What the commands do. Knows nothing of arguments and printing, so that it is easy to test."""

from pathlib import Path


class CommandError(Exception):
    """A failure the user can understand; its text is one sentence."""


def count_lines(file: Path) -> int:
    try:
        return len(file.read_text(encoding="utf-8").splitlines())
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"cannot read {file}: {error}") from error
