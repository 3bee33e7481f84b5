"""Drafters in the older format of BeeLlama up to 0.3 (`dflash-draft`), written anew as `dflash`, which BeeLlama 0.4 and
llama.cpp read. Only names and a few values of the header change; the weights are copied as they are.

The formats: llama.cpp b11434 src/models/dflash.cpp and src/llama-arch.cpp; the drafters published for BeeLlama 0.2.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from agent.errors import RuntimeFailure
from agent.runtime.gguf import ARRAY, KEEP, NUMBERS, STRING, Damaged, GgufFacts, Header, check_draft, read_gguf

OLD, NEW = "dflash-draft", "dflash"
_UINT32, _FLOAT32 = 4, 6
_MASK, _LAYERS = f"{OLD}.dflash.mask_token_id", f"{OLD}.dflash.target_layer_ids"
_DROPPED = f"{OLD}.dflash.n_target_features"  # follows from layers and width
_TENSORS = (
    (re.compile(r"^dflash_fc\b"), "fc"),
    (re.compile(r"^dflash_hidden_norm\b"), "enc.output_norm"),
    (re.compile(r"^(blk\.\d+)\.post_attention_norm\b"), r"\1.ffn_norm"),
)


@dataclass(frozen=True, slots=True)
class _Key:
    """kind: of the value. raw: its bytes, as they stand in the file."""

    name: str
    kind: int
    raw: bytes


def converted(draft: Path, target: GgufFacts) -> Path:
    """The drafter in the newer format, beside the old one; made once. Raises RuntimeFailure."""
    new = draft.with_name(f"{draft.stem}-converted.gguf")
    if not (new.is_file() and new.stat().st_mtime >= draft.stat().st_mtime):
        part = new.with_name(f".{new.name}.{os.getpid()}")
        try:
            with draft.open("rb") as old, part.open("wb") as out:
                _convert(old, out, draft.stat().st_size, scaled=target.architecture.startswith("gemma"))
                out.flush()
                os.fsync(out.fileno())
            check_draft(target, read_gguf(part), {NEW})
            part.replace(new)
        except OSError as error:
            raise RuntimeFailure(f"The drafter {draft} cannot be converted in its folder: {error.strerror}.") from error
        except Damaged as error:
            raise RuntimeFailure(f"{draft} cannot be used: it {error}.") from error
        finally:
            part.unlink(missing_ok=True)
    return new


def _convert(old: BinaryIO, out: BinaryIO, size: int, *, scaled: bool) -> None:
    """`scaled`: the target scales its embeddings inside its graph (Gemma), and so must the drafter that shares them."""
    header = Header(old, size)
    if header.take(4) != b"GGUF":
        raise Damaged("is not a GGUF file; download it again")
    header.number("I")
    tensors, count = header.number("Q"), header.number("Q")
    keys = [_key(old, header) for _ in range(count)]
    infos = [_tensor(header) for _ in range(tensors)]
    sizes = [k for k in keys if k.name == "general.alignment"]
    alignment = struct.unpack("<I", sizes[0].raw)[0] if sizes else 32
    start = -(-header.at // alignment) * alignment
    width = next((k for k in keys if k.name == f"{OLD}.embedding_length"), None)
    renamed = list(_renamed(keys))
    if scaled and width is not None and not any(k.name == f"{NEW}.embedding_scale" for k in renamed):
        scale = math.sqrt(struct.unpack("<I", width.raw)[0])
        renamed.append(_Key(f"{NEW}.embedding_scale", _FLOAT32, struct.pack("<f", scale)))
    out.write(b"GGUF" + struct.pack("<IQQ", 3, tensors, len(renamed)))
    for key in renamed:
        out.write(_text(key.name) + struct.pack("<I", key.kind) + key.raw)
    for name, rest in infos:
        out.write(_text(name) + rest)
    out.write(b"\0" * (-out.tell() % alignment))
    old.seek(start)
    shutil.copyfileobj(old, out, 1 << 20)


def _key(file: BinaryIO, header: Header) -> _Key:
    name, kind = header.name(), header.number("I")
    begin = header.at
    if kind == STRING:
        header.text(KEEP)
    elif kind == ARRAY:
        inner, length = header.number("I"), header.number("Q")
        if inner == STRING:
            header.strings(length, None)
        else:
            header.skip(length * struct.calcsize("<" + _number(name, inner)))
    else:
        header.number(_number(name, kind))
    end = header.at
    file.seek(begin)
    raw = file.read(end - begin)
    return _Key(name, kind, raw)


def _number(name: str, kind: int) -> str:
    if kind not in NUMBERS:
        raise Damaged(f"is damaged ({name!r} is of an unknown type); download it again")
    return NUMBERS[kind]


def _tensor(header: Header) -> tuple[str, bytes]:
    """Its new name, and the rest of its line: offsets count from where the weights begin, so they stay."""
    name, dimensions = header.name(), header.number("I")
    if dimensions > 4:
        raise Damaged(f"is damaged (the tensor {name!r} has {dimensions} dimensions); download it again")
    for pattern, new in _TENSORS:
        name = pattern.sub(new, name)
    return name, struct.pack("<I", dimensions) + header.take(8 * dimensions + 4 + 8)


def _renamed(keys: list[_Key]) -> Iterator[_Key]:
    masked = any(k.name == "tokenizer.ggml.mask_token_id" for k in keys)
    for key in keys:
        if key.name == "general.architecture":
            yield _Key(key.name, STRING, _text(NEW))
        elif key.name == _MASK:
            if not masked:
                yield _Key("tokenizer.ggml.mask_token_id", _UINT32, key.raw[:4])
        elif key.name == _LAYERS:
            yield _Key(f"{NEW}.target_layers", ARRAY, _next_layers(key))
        elif key.name != _DROPPED:
            yield _Key(re.sub(rf"^{OLD}\.(?:dflash\.)?", f"{NEW}.", key.name), key.kind, key.raw)


def _next_layers(key: _Key) -> bytes:
    """The old numbers name outputs of layers, the new ones inputs: one more."""
    inner, length = struct.unpack("<IQ", key.raw[:12])
    kinds = f"<{length}{_number(key.name, inner)}"
    return key.raw[:12] + struct.pack(kinds, *(layer + 1 for layer in struct.unpack(kinds, key.raw[12:])))


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data
