"""What the header of a GGUF file says of its model: no tensor data is read.

Format: ggml docs/gguf.md. Names of the keys, their defaults and what they mean for the KV cache: llama.cpp b11434,
src/llama-arch.cpp, src/llama-model.cpp (load_hparams), src/models/gemma4.cpp, src/models/dflash.cpp.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeAlias, cast

from agent.errors import RuntimeFailure

DRAFTS = ("dflash", "dflash-draft")  # upstream's architecture, and the older one of BeeLlama up to 0.3

# Largest believable header: Gemma 4's is 16 MB, nearly all of it vocabulary. What is larger is not a header.
HEADER_LIMIT = 128 << 20
KEYS, TENSORS, LAYERS = 4096, 1 << 16, 1024  # more of them than any model has
NAME_LIMIT = 1 << 16  # bytes of a key or a tensor's name (gguf.md)
KEEP = 1024  # strings of so many bytes and arrays of so many numbers are kept; longer ones are only walked over
TEMPLATE_KEEP = 1 << 20  # bytes of a chat template; the longest known has 40,000

STRING, ARRAY, _BOOL = 8, 9, 7
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", _BOOL: "?", 10: "Q", 11: "q", 12: "d"}

# ggml type -> (elements, bytes) of a block; ggml/include/ggml.h, ggml/src/ggml-common.h
_BLOCKS = {
    **{0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34)},
    **{10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210)},
    **{16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82)},
    **{23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2)},
    **{34: (256, 54), 35: (256, 66), 39: (32, 17), 40: (64, 36), 41: (128, 18), 42: (64, 18)},
}
# general.file_type -> name; include/llama.h (llama_ftype)
_FILE_TYPES = (
    *("F32", "F16", "Q4_0", "Q4_1", "", "", "", "Q8_0", "Q5_0", "Q5_1", "Q2_K", "Q3_K_S", "Q3_K_M", "Q3_K_L"),
    *("Q4_K_S", "Q4_K_M", "Q5_K_S", "Q5_K_M", "Q6_K", "IQ2_XXS", "IQ2_XS", "Q2_K_S", "IQ3_XS", "IQ3_XXS", "IQ1_S"),
    *("IQ4_NL", "IQ3_S", "IQ3_M", "IQ2_S", "IQ2_M", "IQ4_XS", "IQ1_M", "BF16", "", "", "", "TQ1_0", "TQ2_0"),
    *("MXFP4_MOE", "NVFP4", "Q1_0", "Q2_0"),
)
# Each how many-th layer attends to everything, where the file does not say it: llama.cpp src/models/*.cpp
_PATTERNS = {"gemma2": 2, "gemma3": 6, "gpt-oss": 2}

_Value: TypeAlias = "int | float | str | tuple[int | float, ...]"


@dataclass(frozen=True, slots=True)
class GgufFacts:
    """file: name without its folder. quantisation: such as Q4_K_S, "" when the file does not say. *_bytes: of the
    file, of all tensors, of the token embedding alone. tied: the output layer is the token embedding. heads,
    kv_heads, sliding: one entry per layer. key_length, value_length: width of one head; *_swa: in sliding layers.
    window: tokens a sliding layer sees, 0: none slides. shared_kv_layers: the last so many layers have no KV of their
    own. context_length: tokens it was trained for, 0: not said. tokenizer_hash: over the token texts in their order,
    "": no tokenizer. template: the chat template, "": it has none, or several of which one is for tools.

    Of a drafter only: block_size, mask_token (an id) and target_layers as the file numbers them: the layers' inputs in
    `dflash`, their outputs (one less) in `dflash-draft`."""

    file: str
    architecture: str
    name: str
    quantisation: str
    file_bytes: int
    tensor_bytes: int
    embedding_bytes: int
    tied: bool
    n_layer: int
    n_embd: int
    n_ff: int
    heads: tuple[int, ...]
    kv_heads: tuple[int, ...]
    key_length: int
    value_length: int
    key_length_swa: int
    value_length_swa: int
    context_length: int
    vocabulary: int
    window: int = 0
    sliding: tuple[bool, ...] = ()
    shared_kv_layers: int = 0
    tokenizer_hash: str = ""
    template: str = ""
    block_size: int | None = None
    mask_token: int | None = None
    target_layers: tuple[int, ...] = ()


class Damaged(Exception):
    """Why the file cannot be read, as the end of "FILE cannot be used: it …"."""


def read_gguf(path: Path) -> GgufFacts:
    """Takes under a second and a few MB of memory, however large the file or what it claims to hold. Raises
    RuntimeFailure for what is no whole GGUF file of a language model."""
    try:
        if path.exists() and not path.is_file():
            raise Damaged("is not a file; name the model's .gguf file in the profile")
        size = path.stat().st_size
        with path.open("rb") as file:
            return _read(path.name, Header(file, size), size)
    except OSError as error:
        why = error.strerror or str(error)
        raise RuntimeFailure(f"The model file {path} cannot be read ({why}): check its path and rights.") from error
    except Damaged as error:
        raise RuntimeFailure(f"{path} cannot be used: it {error}.") from error


def check_draft(target: GgufFacts, draft: GgufFacts, dialect_accepts: Set[str]) -> None:
    """`dialect_accepts`: architectures of drafters that the engine loads. Raises RuntimeFailure when `draft` cannot
    serve `target` on it; several engines would end in an assertion or serve without it, silently."""
    pair = f"The drafter {draft.file} does not fit the model {target.file}"
    other = "take the drafter that was made for this model, or start with --no-dflash."
    if target.architecture in DRAFTS:
        raise RuntimeFailure(f"{target.file} is a drafter, not a model: name the model's file in the profile.")
    if draft.architecture not in DRAFTS and draft.architecture not in dialect_accepts:
        raise RuntimeFailure(
            f"{draft.file} is not a DFlash drafter but a model of architecture {draft.architecture!r}: {other}"
        )
    if draft.architecture not in dialect_accepts:
        wanted = " or ".join(sorted(dialect_accepts)) or "none"
        raise RuntimeFailure(
            f"The drafter {draft.file} has the format {draft.architecture!r}, and this engine loads {wanted}: take a "
            "drafter file in that format, another engine, or start with --no-dflash."
        )
    if not draft.target_layers or not draft.block_size:
        missing = "target_layers" if not draft.target_layers else "block_size"
        raise RuntimeFailure(f"The drafter {draft.file} does not say its {missing}: download it again, or {other}")
    if draft.n_embd != target.n_embd:
        raise RuntimeFailure(f"{pair}: it is {draft.n_embd} wide and the model {target.n_embd}; {other}")
    last = max(draft.target_layers) + (draft.architecture == "dflash-draft")
    if last > target.n_layer or min(draft.target_layers) < 0:
        raise RuntimeFailure(f"{pair}: it listens at layer {last} and the model has {target.n_layer}; {other}")
    if draft.vocabulary != target.vocabulary:
        raise RuntimeFailure(f"{pair}: it knows {draft.vocabulary} tokens and the model {target.vocabulary}; {other}")


class _Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...


class Header:
    """Reads forward and never past HEADER_LIMIT or the end of the file, whatever the lengths in the file say."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._end = min(size, HEADER_LIMIT)
        self.at = 0

    def take(self, count: int) -> bytes:
        self._move(count)
        data = self._file.read(count)
        if len(data) < count:
            raise Damaged("became shorter while it was read; start again")
        return data

    def skip(self, count: int) -> None:
        self._move(count)
        self._file.seek(count, 1)

    def number(self, kind: str) -> Any:
        return struct.unpack("<" + kind, self.take(struct.calcsize("<" + kind)))[0]

    def name(self) -> str:
        size = self.number("Q")
        if not 0 < size <= NAME_LIMIT:
            raise Damaged("is damaged (a name of impossible length); download it again")
        return self.take(size).decode("utf-8", errors="replace")

    def text(self, keep: int) -> str | None:
        """None when it is longer than `keep` bytes."""
        size = self.number("Q")
        if size <= keep:
            return self.take(size).decode("utf-8", errors="replace")
        self.skip(size)
        return None

    def chunks(self, size: int, digest: _Digest | None) -> None:
        if digest is None:
            self.skip(size)
            return
        while size:
            data = self.take(min(size, KEEP * 64))
            digest.update(data)
            size -= len(data)

    def strings(self, count: int, digest: _Digest | None) -> None:
        """Walks over `count` strings. A digest gets each one's length and bytes."""
        if count * 8 > self._end - self.at:
            raise self._short()
        for _ in range(count):
            length = self.take(8)
            size = int.from_bytes(length, "little")
            if digest:
                digest.update(length)
            self.chunks(size, digest)

    def _move(self, count: int) -> None:
        if count > self._end - self.at:
            raise self._short()
        self.at += count

    def _short(self) -> Damaged:
        if self._end == HEADER_LIMIT:
            return Damaged(f"is damaged (its header is longer than {HEADER_LIMIT >> 20} MiB); download it again")
        return Damaged("is cut off or damaged (it ends inside its header); download it again")


def _read(file: str, header: Header, size: int) -> GgufFacts:
    magic = header.take(min(4, size))
    if magic != b"GGUF":
        begins = f"begins with {magic!r}" if magic else "is empty"
        raise Damaged(f"is not a GGUF file ({begins}); download the model again")
    version = header.number("I")
    if version not in (2, 3):
        swapped = int.from_bytes(version.to_bytes(4, "little"), "big") in (2, 3)
        kind = "for big-endian machines" if swapped else f"of GGUF version {version}, and 2 and 3 are known"
        raise Damaged(f"is {kind}; take another file of this model")
    tensors, keys = header.number("Q"), header.number("Q")
    if keys > KEYS or tensors > TENSORS:
        raise Damaged(f"is damaged (it claims {keys} keys and {tensors} tensors); download it again")
    values, digests = _keys(header, keys)
    sizes = _tensors(header, tensors, size, _Keys(values).number("general.alignment", 32))
    return _facts(file, size, _Keys(values), digests, sizes)


def _keys(header: Header, count: int) -> tuple[dict[str, _Value], dict[str, str]]:
    """The short values and the chat template ("" for other long texts), and the hash of the tokens."""
    values: dict[str, _Value] = {}
    digests: dict[str, str] = {}
    for _ in range(count):
        key, kind = header.name(), header.number("I")
        digest = hashlib.sha256() if key == "tokenizer.ggml.tokens" else None
        if kind == STRING:
            value = header.text(TEMPLATE_KEEP if key == "tokenizer.chat_template" else KEEP)
            values[key] = "" if value is None else value
        elif kind == ARRAY:
            inner, length = header.number("I"), header.number("Q")
            if inner == STRING:
                header.strings(length, digest)
                values[key + ".count"] = length
            elif inner not in NUMBERS:
                raise Damaged(f"is damaged ({key!r} is of an unknown type); download it again")
            elif length <= KEEP:
                kinds = f"<{length}{NUMBERS[inner]}"
                values[key] = struct.unpack(kinds, header.take(struct.calcsize(kinds)))
            else:
                header.skip(length * struct.calcsize("<" + NUMBERS[inner]))
        elif kind in NUMBERS:
            values[key] = header.number(NUMBERS[kind])
        else:
            raise Damaged(f"is damaged ({key!r} is of an unknown type); download it again")
        if digest:
            digests[key] = digest.hexdigest()
    return values, digests


def _tensors(header: Header, count: int, size: int, alignment: int) -> dict[str, int]:
    """Bytes of all tensors ("") and of the two that the planner asks for. The file must hold them all."""
    sizes = {"": 0}
    end, unknown = 0, False
    for _ in range(count):
        name, dimensions = header.name(), header.number("I")
        if dimensions > 4:
            raise Damaged(f"is damaged (the tensor {name!r} has {dimensions} dimensions); download it again")
        shape = [header.number("Q") for _ in range(dimensions)]
        kind, offset = header.number("I"), header.number("Q")
        elements, block = _BLOCKS.get(kind, (1, 0))
        unknown |= not block
        bytes_ = math.prod(shape) * block // elements
        sizes[""] += bytes_
        end = max(end, offset + bytes_)
        if name in ("token_embd.weight", "output.weight"):
            sizes[name] = bytes_
    if not 0 < alignment <= 1 << 16:
        raise Damaged("is damaged (an impossible alignment); download it again")
    start = -(-header.at // alignment) * alignment
    if count and start + end > size:
        raise Damaged(f"is cut off ({size} of {start + end} bytes are there); download the rest")
    if unknown:  # quantised in a way newer than this table
        sizes[""] = max(0, size - start)
    return sizes


class _Keys:
    """Typed looks at what was read; a value of another type counts as damage."""

    def __init__(self, values: Mapping[str, _Value]) -> None:
        self._values = values

    def number(self, key: str, default: int = 0) -> int:
        value = self._values.get(key, default)
        if not isinstance(value, int) or value < 0:
            raise Damaged(f"is damaged ({key!r} is not a number); download it again")
        return int(value)

    def maybe(self, *names: str) -> int | None:
        """Under the first of these names that the file has."""
        return next((self.number(n) for n in names if n in self._values), None)

    def has(self, key: str) -> bool:
        return key in self._values

    def text(self, key: str) -> str:
        value = self._values.get(key, "")
        return value if isinstance(value, str) else ""

    def numbers(self, key: str) -> tuple[int, ...] | None:
        """None: it is absent, or one number."""
        value = self._values.get(key)
        if not isinstance(value, tuple):
            return None
        if not all(isinstance(v, int) for v in value):
            raise Damaged(f"is damaged ({key!r} holds no whole numbers); download it again")
        return cast("tuple[int, ...]", value)

    def layers(self, key: str, count: int, default: tuple[int, ...]) -> tuple[int, ...]:
        """One number per layer: the file has an array, or one number for all."""
        if key not in self._values:
            return default
        array = self.numbers(key)
        if array is None:
            return (self.number(key),) * count
        if len(array) < count or min(array, default=0) < 0:
            raise Damaged(f"is damaged ({key!r} does not cover {count} layers); download it again")
        return array[:count]


def _facts(file: str, size: int, keys: _Keys, digests: Mapping[str, str], tensors: Mapping[str, int]) -> GgufFacts:
    architecture = keys.text("general.architecture")
    if not architecture:
        raise Damaged("does not say its architecture; download the model again")
    if (parts := keys.number("split.count")) > 1:
        raise Damaged(f"is one of {parts} parts; join them with llama-gguf-split --merge")
    a = architecture + "."
    layers, width = keys.number(a + "block_count"), keys.number(a + "embedding_length")
    if not 0 < layers <= LAYERS or not width:
        raise Damaged("does not describe a language model; name the model's own file in the profile")
    heads = keys.layers(a + "attention.head_count", layers, (0,) * layers)
    head = width // heads[0] if heads[0] else 0
    key_length = keys.number(a + "attention.key_length", head)
    value_length = keys.number(a + "attention.value_length", head)
    tokens = keys.number("tokenizer.ggml.tokens.count", keys.number(a + "vocab_size"))
    kind = keys.number("general.file_type", len(_FILE_TYPES))
    legacy, drafter = a + "dflash.", architecture in DRAFTS
    window = keys.number(a + "attention.sliding_window")
    return GgufFacts(
        file=file,
        architecture=architecture,
        name=keys.text("general.name"),
        quantisation=_FILE_TYPES[kind] if kind < len(_FILE_TYPES) else "",
        file_bytes=size,
        tensor_bytes=tensors[""],
        embedding_bytes=tensors.get("token_embd.weight", 0),
        tied="token_embd.weight" in tensors and "output.weight" not in tensors,
        n_layer=layers,
        n_embd=width,
        n_ff=max(keys.layers(a + "feed_forward_length", layers, (0,))),
        heads=heads,
        kv_heads=keys.layers(a + "attention.head_count_kv", layers, heads),
        key_length=key_length,
        value_length=value_length,
        key_length_swa=keys.number(a + "attention.key_length_swa", key_length),
        value_length_swa=keys.number(a + "attention.value_length_swa", value_length),
        context_length=keys.number(a + "context_length"),
        vocabulary=tokens,
        window=window,
        sliding=_sliding(keys, architecture, layers) if window else (False,) * layers,
        shared_kv_layers=min(layers, keys.number(a + "attention.shared_kv_layers")),
        tokenizer_hash=digests.get("tokenizer.ggml.tokens", ""),
        template="" if keys.has("tokenizer.chat_template.tool_use") else keys.text("tokenizer.chat_template"),
        block_size=keys.maybe(legacy + "block_size", a + "block_size") if drafter else None,
        mask_token=keys.maybe(legacy + "mask_token_id", "tokenizer.ggml.mask_token_id") if drafter else None,
        target_layers=keys.numbers(a + "target_layers") or keys.numbers(legacy + "target_layer_ids") or (),
    )


def _sliding(keys: _Keys, architecture: str, layers: int) -> tuple[bool, ...]:
    """Which layers slide. A window without a pattern that we know: none, which asks for more memory, not for less."""
    key = f"{architecture}.attention.sliding_window_pattern"
    if array := keys.numbers(key):
        return tuple(bool(s) for s in keys.layers(key, layers, array))
    each = keys.number(key, _PATTERNS.get(architecture, 1))
    return tuple(each == 0 or n % each < each - 1 for n in range(layers))
