"""Makes a tiny model of Gemma 4's architecture and a DFlash draft that suits it, in about a second, without training.

The weights are seeded noise plus a chain: each token of a fixed text points at its successor, in an orthonormal
direction of its own, so that at temperature 0 the target recites the text. The draft's first layer looks two positions
back, by RoPE alone, and maps a token's direction to its successor's; each further layer reaches one position more. So
the first drafted token comes only from the target's hidden states: a draft that cannot hear them gets nothing accepted,
and acceptance is real.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np

STORY = (
    "Hello! This reply comes from a tiny model that only exists to exercise the engine. Each word was chosen once, so "
    "every step stays certain while nothing random is asked for. One draft proposes several tokens and our target "
    "checks them together; where both agree, decoding moves faster, otherwise it gives one corrected token instead. "
    "Files were written by numpy within seconds using fixed seeds. Measure timings, counters, streams, logs. Bye."
)
SPECIAL = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<|turn>", "<turn|>", "<|think|>", "<|tool>", "<tool|>"]
MARKS = ["<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>", '<|"|>']
MASK = 4
DIM, LAYERS, DRAFT_LAYERS = 256, 6, 3

# Gemma 4's format, shortened; the literal '<|tool_call>call:' and the comment are what the server detects it by.
TEMPLATE = r"""{{- bos_token -}}
{%- macro show(v) -%}
{%- if v is string -%}{{- '<|"|>' + v + '<|"|>' -}}
{%- elif v is boolean -%}{{- 'true' if v else 'false' -}}
{%- elif v is mapping -%}{{- '{' -}}{%- for k, x in v | dictsort -%}{{- k -}}:{{- show(x) -}}
{%- if not loop.last %},{% endif -%}{%- endfor -%}{{- '}' -}}
{%- elif v is sequence -%}[{%- for x in v -%}{{- show(x) -}}{%- if not loop.last %},{% endif -%}{%- endfor -%}]
{%- else -%}{{- v -}}{%- endif -%}
{%- endmacro -%}
{%- set ns = namespace(tool=false, rest=messages) -%}
{%- if tools or messages[0]['role'] == 'system' -%}
{{- '<|turn>system\n' -}}
{%- if messages[0]['role'] == 'system' -%}{{- messages[0]['content'] -}}{%- set ns.rest = messages[1:] -%}{%- endif -%}
{%- for t in tools or [] -%}
{{- '<|tool>declaration:' + t['function']['name'] + show({'parameters': t['function']['parameters']}) + '<tool|>' -}}
{%- endfor -%}
{{- '<turn|>\n' -}}
{%- endif -%}
{%- for m in ns.rest -%}
{%- if m['role'] == 'tool' -%}
{#- OpenAI Chat Completions: a tool message continues the model's turn -#}
{{- '<|tool_response>response:' + (m['name'] or 'tool') + '{value:' + show(m['content']) + '}<tool_response|>' -}}
{%- set ns.tool = true -%}
{%- else -%}
{%- set role = 'model' if m['role'] == 'assistant' else m['role'] -%}
{%- if not (role == 'model' and ns.tool) -%}{{- '<|turn>' + role + '\n' -}}
{%- if role == 'model' -%}{{- '<|channel>thought\n<channel|>' -}}{%- endif -%}
{%- endif -%}
{%- for c in m['tool_calls'] or [] -%}
{%- set f = c['function'] -%}
{{- '<|tool_call>call:' + f['name'] -}}
{%- if f['arguments'] is mapping -%}{{- show(f['arguments']) -}}{%- else -%}{{- '{' + (f['arguments'] or '') + '}' -}}
{%- endif -%}
{{- '<tool_call|>' -}}
{%- endfor -%}
{%- if m['content'] is string -%}{{- m['content'] -}}{%- endif -%}
{%- if m['tool_calls'] -%}{%- set ns.tool = true -%}
{%- else -%}{{- '<turn|>\n' -}}{%- set ns.tool = false -%}{%- endif -%}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt and not ns.tool -%}{{- '<|turn>model\n<|channel>thought\n<channel|>' -}}{%- endif -%}
"""


@dataclass(frozen=True)
class Tiny:
    target: Path
    draft: Path


@dataclass
class Words:
    """Vocabulary with its merges, and the chain: token -> [(successor, weight)]."""

    tokens: list[str]
    types: list[int]
    merges: list[str]
    ids: dict[str, int]
    chain: dict[int, list[tuple[int, float]]]
    first: int


def make_tiny(
    folder: Path,
    *,
    tool: str = "",
    argument: tuple[str, str] = ("command", "ls"),
    before: str = "",
    timeout: bool = False,
    thought: str = "",
    template: str = TEMPLATE,
    deaf: bool = False,
    legacy: bool = False,
) -> Tiny:
    """`tool`: the model begins with a call of it, with that one argument, and ends with the text once it has a result.
    `before`: a word it says before the call. `timeout`: the call begins with the argument `timeout:5`, which the
    alphabet puts last. `thought`: a word it thinks where a thought channel stands open. `deaf`: the draft does not hear
    the target's hidden states. `legacy`: it is in the older format of BeeLlama."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(1)
    words = _words(tool, argument, before, timeout, thought)
    basis = np.linalg.qr(random.standard_normal((DIM, DIM)))[0].T
    bias, other = basis[0], basis[1]
    nodes = list(dict.fromkeys([*words.chain, *(u for s in words.chain.values() for u, _ in s)]))
    assert len(nodes) <= DIM - 2
    way = {token: basis[2 + n] for n, token in enumerate(nodes)}
    tiny = Tiny(folder / "tiny-gemma4.gguf", folder / "tiny-gemma4-dflash.gguf")
    _write_target(tiny.target, random, words, way, bias, other, template)
    _write_draft(tiny.draft, random, words, way, bias, other, deaf, legacy)
    return tiny


def _words(tool: str, argument: tuple[str, str], before: str, timeout: bool, thought: str) -> Words:
    story = STORY.split(" ")
    assert len(set(story)) == len(story), "each word once, so that each has one successor"
    spoken = [story[0], *("\u2581" + w for w in story[1:])]
    key, value = argument[0], argument[1].replace(" ", "\u2581")
    more = ["timeout:", f"{key}:"] if timeout else []
    split = {
        w: list(w)
        for w in dict.fromkeys([*spoken, "call", "thought", tool or "tool", key, value, *more, before, thought])
    }
    merges: list[tuple[str, str]] = []
    while pairs := Counter(p for parts in split.values() for p in itertools.pairwise(parts)):
        best = min(pairs, key=lambda p: (-pairs[p], p))
        merges.append(best)
        for parts in split.values():
            at = 0
            while at < len(parts) - 1:
                if (parts[at], parts[at + 1]) == best:
                    parts[at : at + 2] = ["".join(best)]
                at += 1
    kind = gguf.TokenType
    entries: dict[str, int] = {t: kind.UNKNOWN if t == "<unk>" else kind.CONTROL for t in SPECIAL}
    entries |= dict.fromkeys(MARKS, kind.USER_DEFINED)
    entries |= {f"<0x{b:02X}>": kind.BYTE for b in range(256)}
    letters = [chr(c) for c in range(33, 127)]
    entries |= dict.fromkeys(["\n", "\n\n", "\u2581", *letters, *("".join(m) for m in merges)], kind.NORMAL)
    ids = {t: n for n, t in enumerate(entries)}
    chain: dict[int, list[tuple[int, float]]] = {}

    def link(a: str, b: str, weight: float = 1.0) -> None:
        chain.setdefault(ids[a], []).append((ids[b], weight))

    for a, b in itertools.pairwise(spoken):
        link(a, b)
    link(spoken[-1], "<turn|>")
    link("<turn|>", spoken[0])
    link("<tool_response|>", spoken[0])
    link("<channel|>", before or ("<|tool_call>" if tool else spoken[0]))
    if thought:
        link("\n", thought)
        link(thought, "<channel|>")
    if before:
        link(before, "<|tool_call>" if tool else spoken[0])
    if tool:
        link("<channel|>", spoken[0], 0.5)  # when no call is allowed
        quote = '<|"|>'
        for a, b, weight in (
            *(("<|tool_call>", "call", 1.0), ("call", ":", 1.0), (":", tool, 1.0), (":", quote, 0.9)),
            *((tool, "{", 1.0), (quote, value, 1.0), (quote, "}", 0.9)),
            *([("{", key, 1.0), (key, ":", 1.0)] if not timeout else []),
            *([("{", "timeout:", 1.0), ("timeout:", "5", 1.0), ("5", ",", 1.0)] if timeout else []),
            *([(",", f"{key}:", 1.0), (f"{key}:", quote, 1.0)] if timeout else []),
            *((value, quote, 1.0), ("}", "<tool_call|>", 1.0), ("<tool_call|>", "<|tool_response>", 1.0)),
        ):
            link(a, b, weight)
    return Words(list(entries), list(entries.values()), [f"{a} {b}" for a, b in merges], ids, chain, ids[spoken[0]])


class _File:
    def __init__(self, path: Path, arch: str, words: Words, template: str | None) -> None:
        self._arch = arch
        w = self._writer = gguf.GGUFWriter(str(path), arch)
        w.add_name(f"tiny {arch}")
        w.add_file_type(int(gguf.LlamaFileType.MOSTLY_F16))
        w.add_string("tokenizer.ggml.model", "gemma4")
        w.add_token_list(words.tokens)
        w.add_token_scores([-1000.0] * len(words.tokens))
        w.add_token_types(words.types)
        w.add_token_merges(words.merges)
        numbers = {"padding": 0, "eos": 1, "bos": 2, "unknown": 3, "mask": MASK, "eot": words.ids["<turn|>"]}
        for name, number in numbers.items():
            w.add_uint32(f"tokenizer.ggml.{name}_token_id", number)
        w.add_bool("tokenizer.ggml.add_bos_token", True)
        w.add_bool("tokenizer.ggml.add_space_prefix", False)
        if template:
            w.add_chat_template(template)

    def keys(self, **values: Any) -> None:
        for name, value in values.items():
            add = {bool: "add_bool", int: "add_uint32", float: "add_float32", list: "add_array"}[type(value)]
            getattr(self._writer, add)(f"{self._arch}.{name.replace('__', '.')}", value)

    def matrix(self, name: str, value: Any) -> None:
        self._writer.add_tensor(name + ".weight", np.ascontiguousarray(value, dtype=np.float16))

    def vector(self, name: str, value: Any) -> None:
        self._writer.add_tensor(name + ".weight", np.ascontiguousarray(value, dtype=np.float32))

    def ones(self, size: int, scale: float, names: Iterable[str]) -> None:
        for name in names:
            self.vector(name, np.ones(size) * scale)

    def close(self) -> None:
        self._writer.write_header_to_file()
        self._writer.write_kv_data_to_file()
        self._writer.write_tensors_to_file()
        self._writer.close()


def _write_target(
    path: Path, random: Any, words: Words, way: dict[int, Any], bias: Any, other: Any, template: str
) -> None:
    def noise(rows: int, columns: int, scale: float | None = None) -> Any:
        return random.standard_normal((rows, columns)) * (columns**-0.5 if scale is None else scale)

    count = len(words.tokens)
    embedding = np.zeros((count, DIM))
    for token in range(count):
        direction = way[token] if token in way else other + 0.3 * noise(1, DIM)[0]
        embedding[token] = 0.954 * direction / np.linalg.norm(direction) + 0.3 * bias
    embedding[MASK] = 0.02 * bias  # weak, so that what attention brings into the draft's mask positions dominates
    head = noise(count, DIM, 0.02)
    gain = 10.0 / (np.sqrt(DIM) * 0.93)
    for token, successors in words.chain.items():
        for successor, weight in successors:
            head[successor] += gain * weight * way[token]
    head[words.first] += gain * other  # whatever else stood last: begin the text
    quiet = (gguf.TokenType.CONTROL, gguf.TokenType.BYTE, gguf.TokenType.UNKNOWN)
    for token, kind in enumerate(words.types):
        if kind in quiet and token not in way:
            head[token] = -0.3 * bias
    heads, inner = 4, 512
    sliding = [(n + 1) % 6 != 0 for n in range(LAYERS)]
    f = _File(path, "gemma4", words, template)
    f.keys(context_length=131072, embedding_length=DIM, block_count=LAYERS, feed_forward_length=inner)
    f.keys(attention__head_count=heads, attention__head_count_kv=[2 if s else 1 for s in sliding])
    f.keys(attention__key_length=64, attention__value_length=64, attention__layer_norm_rms_epsilon=1e-6)
    f.keys(attention__key_length_swa=32, attention__value_length_swa=32, attention__sliding_window=512)
    f.keys(attention__sliding_window_pattern=sliding, attention__shared_kv_layers=0)
    f.keys(embedding_length_per_layer_input=0, final_logit_softcapping=30.0)
    f.keys(rope__freq_base=1e6, rope__dimension_count=64, rope__freq_base_swa=1e4, rope__dimension_count_swa=32)
    f.matrix("token_embd", embedding)
    f.matrix("output", head)
    f.vector("output_norm", np.ones(DIM))
    f.vector("rope_freqs", np.array([1.0] * 8 + [1e30] * 24))
    for n, slides in enumerate(sliding):
        width, pairs, block = (32, 2, f"blk.{n}.") if slides else (64, 1, f"blk.{n}.")
        f.matrix(block + "attn_q", noise(heads * width, DIM))
        f.matrix(block + "attn_k", noise(pairs * width, DIM))
        if slides:  # the full-attention layers of Gemma 4 use their keys as values
            f.matrix(block + "attn_v", noise(pairs * width, DIM))
        f.matrix(block + "attn_output", noise(DIM, heads * width))
        f.ones(width, 1.0, [block + "attn_q_norm"])
        f.ones(width, 0.2, [block + "attn_k_norm"])
        f.matrix(block + "ffn_gate", noise(inner, DIM))
        f.matrix(block + "ffn_up", noise(inner, DIM))
        f.matrix(block + "ffn_down", noise(DIM, inner))
        f.ones(DIM, 1.0, [block + "attn_norm", block + "ffn_norm"])
        f.ones(DIM, 0.05, [block + "post_attention_norm", block + "post_ffw_norm"])  # the noise stays small
        f.ones(1, 1.0, [block + "layer_output_scale"])
    f.close()


def _write_draft(
    path: Path, random: Any, words: Words, way: dict[int, Any], bias: Any, other: Any, deaf: bool, legacy: bool
) -> None:
    def noise(rows: int, columns: int, scale: float = 1e-4) -> Any:
        return random.standard_normal((rows, columns)) * scale

    heads, width, inner = 4, 64, 256
    likely = {token: max(s, key=lambda pair: pair[1])[0] for token, s in words.chain.items()}
    step = sum(np.outer(way[u], way[t]) for t, u in likely.items()) + np.outer(way[words.first], other)
    angle = 10000.0 ** (-np.arange(width // 2) * 2.0 / width)
    active = np.zeros(width // 2)
    active[:6] = 1
    query = np.concatenate([active, 0 * active])
    inputs = [1, LAYERS // 2, LAYERS - 1]  # of these target layers
    f = _File(path, "dflash-draft" if legacy else "dflash", words, None)
    f.keys(context_length=131072, embedding_length=DIM, block_count=DRAFT_LAYERS, feed_forward_length=inner)
    f.keys(attention__head_count=heads, attention__head_count_kv=heads, attention__key_length=width)
    f.keys(attention__value_length=width, attention__layer_norm_rms_epsilon=1e-6, attention__causal=False)
    f.keys(rope__freq_base=1e4, rope__dimension_count=width)
    if legacy:  # layers by their outputs, and no scale
        f.keys(dflash__block_size=16, dflash__mask_token_id=MASK, dflash__target_layer_ids=[n - 1 for n in inputs])
        f.keys(dflash__n_target_features=DIM * len(inputs))
    else:
        f.keys(block_size=16, target_layers=inputs, embedding_scale=float(np.sqrt(DIM)))
    ear = np.concatenate([np.eye(DIM)] * len(inputs), axis=1) / len(inputs)
    fc, hear, norm = (
        ("dflash_fc", "dflash_hidden_norm", "post_attention_norm") if legacy else ("fc", "enc.output_norm", "ffn_norm")
    )
    f.matrix(fc, ear * 0 if deaf else ear + noise(*ear.shape, 1e-3))
    f.ones(DIM, 1.0, [hear, "output_norm"])
    for n in range(DRAFT_LAYERS):
        back, block = (2 if n == 0 else 1), f"blk.{n}."
        key = np.concatenate([active * np.cos(back * angle), active * np.sin(back * angle)])
        gain = 1.0 if n == 0 else 0.15 / (DRAFT_LAYERS - 1)  # later layers must not outweigh the first
        f.matrix(block + "attn_q", np.tile(np.outer(query, bias), (heads, 1)) + noise(DIM, DIM))
        f.matrix(block + "attn_k", np.tile(np.outer(key, bias), (heads, 1)) + noise(DIM, DIM))
        f.matrix(block + "attn_v", np.eye(DIM) - np.outer(bias, bias))
        f.matrix(block + "attn_output", gain * step + noise(DIM, DIM))
        f.vector(block + "attn_q_norm", 4.0 * np.concatenate([active, active]))
        f.vector(block + "attn_k_norm", 4.0 * np.concatenate([active, active]))
        f.matrix(block + "ffn_gate", noise(inner, DIM, 1 / 16))
        f.matrix(block + "ffn_up", noise(inner, DIM, 1 / 16))
        f.matrix(block + "ffn_down", noise(DIM, inner, 0.002 / 16))
        f.ones(DIM, 1.0, [block + "attn_norm", block + norm])
    f.close()
