"""What a server answered, as the model reads it: text once, bounded, the rest and all that is no text in files."""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
import mimetypes
import re
import time
from collections.abc import Iterable, Mapping
from itertools import count
from pathlib import Path
from typing import Any, cast

from agent.config.foreign import mapping
from agent.messages import ToolOutput
from agent.tools.limits import Window, plain

KEPT = 200  # files of earlier results; older ones go
LEAVES = 2_000  # of structured data that are compared with the text
BLOB = re.compile(r"[A-Za-z0-9+/_=-]{1000,}")  # base64 or the like: no words of any language are that long
NOTHING = "(no content)"
ENDINGS = {"audio/wav": ".wav", "image/jpeg": ".jpg", "text/plain": ".txt"}


class Results:
    """`folder`: where long texts, pictures and blobs are put."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = count(1)

    def output(self, result: Mapping[str, Any], server: str, tool: str) -> ToolOutput:
        """Of a tools/call, in the protocol's JSON."""
        name = f"{server}-{tool}"
        text = self.text(_list(result.get("content")), name)
        structured = result.get("structuredContent")
        if structured is not None and not _told(structured, text):
            data = _without_blobs(json.dumps(structured, ensure_ascii=False, indent=1))
            text = f"{text}\n{data}" if text else data
        return ToolOutput(self.bounded(text, name) or NOTHING, failed=result.get("isError") is True)

    def text(self, blocks: Iterable[Any], name: str) -> str:
        """Of content blocks, or of the contents of a resource; not yet bounded."""
        return "\n".join(part for block in blocks if (part := self._part(mapping(block), name)))

    def bounded(self, text: str, name: str) -> str:
        text = plain(text).strip("\n")
        data = text.encode("utf-8", "replace")
        window = Window()
        window.add(data)
        if not window.cut:
            return text
        file = self._save(name, ".txt", data)
        where = f"; all of it is in {file}" if file else ""
        return window.text(f"… {len(data)} bytes in all, the middle is left out{where} …")

    def _part(self, block: Mapping[str, Any], name: str) -> str:
        kind = block.get("type")
        if kind == "text":
            return str(block.get("text") or "")
        if kind in ("image", "audio"):
            return self._blob(str(kind), str(block.get("mimeType") or ""), block.get("data"), name)
        if kind == "resource_link":
            about = block.get("description") or block.get("title") or ""
            return f"[resource {block.get('name', '')}: {block.get('uri', '')}{f' ({about})' if about else ''}]"
        if kind == "resource":
            return self._part(mapping(block.get("resource")), name)
        uri, mime = block.get("uri"), str(block.get("mimeType") or "")
        if uri is not None and "text" in block:
            return f"[resource {uri}]\n{block['text']}"
        if uri is not None:
            return self._blob(f"resource {uri}", mime, block.get("blob"), name)
        return f"[content of the kind {str(kind)[:40]!r}]"

    def _blob(self, what: str, mime: str, data: Any, name: str) -> str:
        try:
            content = base64.b64decode(str(data or ""), validate=False)
        except (binascii.Error, ValueError):
            return f"[{what} {mime}: its data cannot be read]"
        file = self._save(name, ENDINGS.get(mime) or mimetypes.guess_extension(mime) or ".bin", content)
        return f"[{what} {mime}, {len(content)} bytes{f', saved as {file}' if file else ', left out'}]"

    def _save(self, name: str, ending: str, data: bytes) -> Path | None:
        safe = "".join(c if c.isalnum() or c in "-_" else "_" for c in name)[:60]
        file = self._folder / f"{safe}-{time.time_ns() // 10**6}-{next(self._numbers)}{ending}"
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            file.write_bytes(data)
        except OSError:
            return None
        with contextlib.suppress(OSError):
            files = sorted(self._folder.iterdir(), key=lambda f: f.stat().st_mtime)
            for old in files[:-KEPT]:
                old.unlink(missing_ok=True)
        return file


def _told(structured: Any, text: str) -> bool:
    """Does the text hold all of it already? Servers send both, for clients that read only one."""
    with contextlib.suppress(ValueError, RecursionError):
        if json.loads(text) == structured:
            return True
    leaves = list(_leaves(structured, LEAVES))
    return bool(text) and len(leaves) < LEAVES and all(leaf in text for leaf in leaves)


def _leaves(value: Any, most: int) -> Iterable[str]:
    waiting = [value]
    while waiting and most > 0:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting += cast("dict[str, Any]", item).values()
        elif isinstance(item, list):
            waiting += cast("list[Any]", item)
        elif item is not None and item != "":
            most -= 1
            yield item if isinstance(item, str) else json.dumps(item)


def _without_blobs(text: str) -> str:
    return BLOB.sub(lambda found: f"[{len(found[0])} characters of encoded data left out]", text)


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
