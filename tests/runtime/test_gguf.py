"""Reading GGUF headers: the `gguf` package is the oracle for what whole files say, damage is made by hand."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.errors import RuntimeFailure
from agent.runtime.gguf import GgufFacts, check_draft, read_gguf
from tests.real.tiny import Tiny, make_tiny


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return make_tiny(tmp_path_factory.mktemp("gguf"))


def oracle(path: Path) -> tuple[dict[str, Any], gguf.GGUFReader]:
    reader = gguf.GGUFReader(path)
    return {name: field.contents() for name, field in reader.fields.items()}, reader


def agrees_with_the_oracle(path: Path) -> GgufFacts:
    facts = read_gguf(path)
    said, reader = oracle(path)
    a = said["general.architecture"] + "."
    layers = said[a + "block_count"]

    def per_layer(key: str) -> tuple[int, ...]:
        value = said[a + key]
        return tuple(value) if isinstance(value, list) else (value,) * layers

    assert (facts.architecture, facts.name, facts.file_bytes) == (a[:-1], said["general.name"], path.stat().st_size)
    assert facts.quantisation == gguf.LlamaFileType(said["general.file_type"]).name.removeprefix("MOSTLY_")
    assert facts.tensor_bytes == sum(int(t.n_bytes) for t in reader.tensors)
    assert facts.embedding_bytes == sum(int(t.n_bytes) for t in reader.tensors if t.name == "token_embd.weight")
    assert (facts.n_layer, facts.n_embd) == (layers, said[a + "embedding_length"])
    assert facts.heads == per_layer("attention.head_count")
    assert facts.kv_heads == per_layer("attention.head_count_kv")
    assert facts.context_length == said[a + "context_length"] and facts.n_ff == said[a + "feed_forward_length"]
    assert facts.vocabulary == len(said["tokenizer.ggml.tokens"])
    texts = [t.encode() for t in said["tokenizer.ggml.tokens"]]
    digest = hashlib.sha256(b"".join(struct.pack("<Q", len(t)) + t for t in texts))
    assert facts.tokenizer_hash == digest.hexdigest()
    assert facts.template == said.get("tokenizer.chat_template", "")
    return facts


def test_a_gemma4_target_is_read_with_its_two_kinds_of_layers(tiny: Tiny) -> None:
    facts = agrees_with_the_oracle(tiny.target)
    assert (facts.key_length, facts.value_length) == (64, 64)
    assert (facts.key_length_swa, facts.value_length_swa, facts.window) == (32, 32, 512)
    assert facts.sliding == (True,) * 5 + (False,) and facts.kv_heads == (2, 2, 2, 2, 2, 1)
    assert not facts.tied and facts.block_size is None and facts.target_layers == ()


def test_a_drafter_is_read_with_what_ties_it_to_its_target(tiny: Tiny) -> None:
    facts = agrees_with_the_oracle(tiny.draft)
    assert (facts.block_size, facts.mask_token, facts.target_layers) == (16, 4, (1, 3, 5))
    assert facts.tokenizer_hash == read_gguf(tiny.target).tokenizer_hash and not any(facts.sliding)


STORED = [t for t in gguf.GGML_QUANT_SIZES if t.name not in ("Q8_1", "Q8_K")]  # those two exist only inside products


@pytest.mark.parametrize("kind", STORED, ids=lambda t: t.name)
def test_a_tensor_of_any_type_has_the_reference_s_size(tmp_path: Path, kind: gguf.GGMLQuantizationType) -> None:
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    writer = gguf.GGUFWriter(str(tmp_path / "m.gguf"), "llama")
    writer.add_block_count(1)
    writer.add_embedding_length(elements)
    writer.add_tensor("output.weight", np.zeros((3, size), dtype=np.uint8), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert read_gguf(tmp_path / "m.gguf").tensor_bytes == 3 * size


def write(path: Path, arch: str, **keys: Any) -> Path:
    """A file with these keys of its architecture, `__` standing for a dot; dots alone lead to general keys."""
    writer = gguf.GGUFWriter(str(path), arch)
    for name, value in ({"block_count": 6, "embedding_length": 64} | keys).items():
        key = name.replace("__", ".")
        key = key if key.startswith(("tokenizer.", "general.", "split.")) else f"{arch}.{key}"
        kind = {bool: "add_bool", int: "add_uint32", str: "add_string", list: "add_array", float: "add_float32"}
        getattr(writer, kind[type(value)])(key, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_one_number_stands_for_every_layer_and_missing_ones_have_the_engine_s_defaults(tmp_path: Path) -> None:
    keys = {"attention__head_count": 8, "attention__shared_kv_layers": 2}
    facts = read_gguf(write(tmp_path / "m.gguf", "llama", **keys))
    assert facts.heads == facts.kv_heads == (8,) * 6 and facts.key_length == facts.value_length_swa == 8
    assert facts.sliding == (False,) * 6 and facts.shared_kv_layers == 2
    assert facts.vocabulary == 0 and facts.tokenizer_hash == "" and facts.context_length == 0


@pytest.mark.parametrize(
    ("arch", "pattern", "sliding"),
    [
        ("gemma3", None, [True, True, True, True, True, False]),
        ("gemma4", 3, [True, True, False, True, True, False]),
        ("dflash", [True, False, True, True, True, False], [True, False, True, True, True, False]),
        ("brand-new", None, [False] * 6),
    ],
)
def test_which_layers_slide_follows_the_file_or_the_architecture(
    tmp_path: Path, arch: str, pattern: Any, sliding: list[bool]
) -> None:
    keys = {} if pattern is None else {"attention__sliding_window_pattern": pattern}
    assert list(read_gguf(write(tmp_path / "m.gguf", arch, attention__sliding_window=512, **keys)).sliding) == sliding


def test_a_drafter_of_the_older_format_has_its_keys_elsewhere(tmp_path: Path) -> None:
    keys = {"dflash__block_size": 16, "dflash__mask_token_id": 4, "dflash__target_layer_ids": [0, 2, 5]}
    facts = read_gguf(write(tmp_path / "d.gguf", "dflash-draft", **keys))
    assert (facts.block_size, facts.mask_token, facts.target_layers) == (16, 4, (0, 2, 5))


HEADER = b"GGUF" + struct.pack("<I", 3)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is empty"),
        (b"GG", "not a GGUF file"),
        (b"<!DOCTYPE html><html>", "not a GGUF file"),
        (HEADER, "cut off"),
        (b"GGUF" + struct.pack(">I", 3) + bytes(16), "big-endian"),
        (b"GGUF" + struct.pack("<I", 9) + bytes(16), "version 9"),
        (HEADER + struct.pack("<QQ", 1, 2**63), "claims"),
        (HEADER + struct.pack("<QQ", 2**40, 0), "claims"),
        (HEADER + struct.pack("<QQ", 0, 1) + struct.pack("<Q", 2**60), "impossible length"),
        (HEADER + struct.pack("<QQQ", 0, 1, 1) + b"k" + struct.pack("<IIQ", 9, 8, 2**62), "cut off"),
        (HEADER + struct.pack("<QQQ", 0, 1, 1) + b"k" + struct.pack("<IIQ", 9, 4, 2**62), "cut off"),
        (HEADER + struct.pack("<QQQ", 0, 1, 1) + b"k" + struct.pack("<IQ", 8, 2**62), "cut off"),
        (HEADER + struct.pack("<QQQ", 0, 1, 1) + b"k" + struct.pack("<I", 99), "unknown type"),
        (HEADER + struct.pack("<QQQ", 0, 1, 1) + b"k" + struct.pack("<IIQ", 9, 9, 1), "unknown type"),
        (HEADER + struct.pack("<QQ", 0, 0), "does not say its architecture"),
        (HEADER + struct.pack("<QQQ", 1, 0, 1) + b"t" + struct.pack("<I", 99), "99 dimensions"),
    ],
)
def test_what_is_no_whole_gguf_is_one_sentence_with_the_next_step(tmp_path: Path, data: bytes, says: str) -> None:
    (tmp_path / "m.gguf").write_bytes(data)
    with pytest.raises(RuntimeFailure, match=says) as caught:
        read_gguf(tmp_path / "m.gguf")
    assert "m.gguf" in str(caught.value) and "\n" not in str(caught.value)


def test_what_is_not_there_or_no_file_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(RuntimeFailure, match="No such file"):
        read_gguf(tmp_path / "absent.gguf")
    with pytest.raises(RuntimeFailure, match="is not a file"):
        read_gguf(tmp_path)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"block_count": 10**6}, "does not describe a language model"),
        ({"block_count": "six"}, "not a number"),
        ({"attention__head_count_kv": [1, 2]}, "does not cover 6 layers"),
        ({"attention__head_count": [1.5] * 6}, "no whole numbers"),
        ({"split__count": 3}, "join them"),
        ({"general__alignment": 0}, "alignment"),
    ],
)
def test_keys_that_make_no_sense_are_damage(tmp_path: Path, keys: dict[str, Any], says: str) -> None:
    with pytest.raises(RuntimeFailure, match=says):
        read_gguf(write(tmp_path / "m.gguf", "llama", **keys))


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kept=st.floats(0, 0.999))
def test_a_file_cut_anywhere_is_refused(tiny: Tiny, tmp_path: Path, kept: float) -> None:
    data = tiny.target.read_bytes()
    (tmp_path / "cut.gguf").write_bytes(data[: int(len(data) * kept**4)])
    with pytest.raises(RuntimeFailure, match=r"cut off|is empty|not a GGUF"):
        read_gguf(tmp_path / "cut.gguf")


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, 30_000), junk=st.binary(min_size=1, max_size=12))
def test_rubbish_inside_a_header_never_ends_in_anything_but_a_sentence(
    tiny: Tiny, tmp_path: Path, at: int, junk: bytes
) -> None:
    data = tiny.draft.read_bytes()
    (tmp_path / "bad.gguf").write_bytes(data[:at] + junk + data[at + len(junk) :])
    try:
        read_gguf(tmp_path / "bad.gguf")
    except RuntimeFailure as failure:
        assert "\n" not in str(failure)


def test_a_matching_pair_is_let_through(tiny: Tiny) -> None:
    target, draft = read_gguf(tiny.target), read_gguf(tiny.draft)
    check_draft(target, draft, {"dflash"})
    legacy = replace(draft, architecture="dflash-draft", target_layers=(0, 2, 5))
    check_draft(target, legacy, {"dflash-draft"})
    with pytest.raises(RuntimeFailure, match="listens at layer 7 and the model has 6"):
        check_draft(target, replace(legacy, target_layers=(0, 6)), {"dflash-draft"})


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"architecture": "dflash-draft"}, "format 'dflash-draft', and this engine loads dflash"),
        ({"architecture": "llama"}, "not a DFlash drafter but a model of architecture 'llama'"),
        ({"target_layers": ()}, "target_layers"),
        ({"block_size": None}, "block_size"),
        ({"n_embd": 128}, "128 wide and the model 256"),
        ({"target_layers": (1, 7)}, "layer 7 and the model has 6"),
        ({"target_layers": (-1, 2)}, "listens"),
        ({"vocabulary": 50}, "knows 50 tokens"),
    ],
)
def test_a_drafter_that_cannot_serve_is_refused_before_the_engine_starts(
    tiny: Tiny, changes: dict[str, Any], says: str
) -> None:
    target, draft = read_gguf(tiny.target), read_gguf(tiny.draft)
    with pytest.raises(RuntimeFailure, match=says) as caught:
        check_draft(target, replace(draft, **changes), {"dflash"})
    assert "--no-dflash" in str(caught.value) and "\n" not in str(caught.value)


def test_a_drafter_given_as_the_model_is_noticed(tiny: Tiny) -> None:
    draft = read_gguf(tiny.draft)
    with pytest.raises(RuntimeFailure, match="is a drafter, not a model"):
        check_draft(draft, draft, {"dflash"})
