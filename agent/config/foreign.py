"""Addresses and JSON of other programs, read without trust."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urlsplit


def is_local(url: str) -> bool:
    """Whether it leads to this machine; a proxy from the environment must not be asked then."""
    return urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1")


def mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is an object, else an empty one."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def first(value: Any) -> Mapping[str, Any]:
    """The first object of a list, else an empty one."""
    items = cast("list[Any]", value) if isinstance(value, list) else []
    return mapping(items[0]) if items else {}
