"""An append-only chat template, derived from the model's own.

A server renders the whole conversation anew for each request and reuses its cache up to the first byte that differs.
The templates of some model families render a reply in history otherwise than the model wrote it, so that each turn is
read twice. Here are the edits that mend that, as patterns that fit the family's template; no template is kept here.
Whether the outcome really keeps the prefix is for `prefix` to find out, by rendering with the server itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Edit:
    """`pattern` must occur exactly once to be replaced by `new`, or the edit does not apply."""

    about: str
    pattern: str
    new: str


@dataclass(frozen=True, slots=True)
class Patch:
    """`marks`: all of them stand in every template of the family. `chat_format`: what the server calls the family's
    output format; "" where it has no name of its own."""

    family: str
    marks: tuple[str, ...]
    edits: tuple[Edit, ...]
    chat_format: str = ""


@dataclass(frozen=True, slots=True)
class Derived:
    family: str
    text: str
    edits: tuple[str, ...]
    chat_format: str


# `think_first` (a template variable of ours): whether the conversation began with thinking on. Gemma says so in the
# system turn, so that switching it would move every byte. Whoever does not know the variable gets the usual rendering.
GEMMA4 = Patch(
    "gemma4",
    ("'<|tool_call>call:'", "<|channel>thought"),
    (
        Edit("arguments in the order they were written", r"(function\['arguments'\]) \| dictsort", r"\1 | items"),
        Edit("nested arguments in the order they were written", r"(in argument) \| dictsort", r"\1 | items"),
        Edit(
            "null as the model writes it",
            r"(macro format_argument\([^)]*\) -%\}\s*)\{%- if argument is string -%\}",
            r"\1{%- if argument is none -%}{{- 'null' -}}{%- elif argument is string -%}",
        ),
        Edit(
            "no thought channel behind a tool's result",
            r"(\{\{- '<\|turn>model\\n' -\}\}\s*)\{%- endif -%\}"
            r"(\s*\{%- if not enable_thinking \| default\(false\) -%\}\s*\{\{- '<\|channel>thought\\n<channel\|>' -\}\}"
            r"\s*\{%- endif -%\})",
            r"\1\2{%- endif -%}",
        ),
        Edit(
            "the empty thought channel stays in history",
            r"(\{\{- '<\|turn>' \+ role \+ '\\n' \}\}\s*)(\{%- endif -%\})(?=[\s\S]*not enable_thinking \| default)",
            r"\1{%- if role == 'model' and not (message.get('reasoning') or message.get('reasoning_content')) -%}"
            r"{{- '<|channel>thought\\n<channel|>' -}}{%- endif -%}\2",
        ),
        Edit(
            "thoughts stay in history, as they were written",
            r"\{%- if thinking_text and (?:thinking_gate|loop\.index0 > ns_turn\.last_user_idx and "
            r"message\.get\('tool_calls'\)) -%\}"
            r"(\s*\{\{- '<\|channel>thought\\n' \+ thinking_text \+ ')\\n(<channel\|>')",
            r"{%- if thinking_text -%}\1\2",
        ),
        Edit(
            "text before the calls it came with",
            r"(\{%- if message(?:\['tool_calls'\]|\.get\('tool_calls'\)) -%\}\s*\{%- for tool_call in )",
            r"{%- if role == 'model' and message.get('tool_calls') and not message.get('tool_responses')"
            r" and message['content'] is string -%}{{- message['content'] -}}{%- endif -%}\1",
        ),
        Edit(
            "and not again behind their results",
            r"\{%- if (message(?:\['content'\]|\.get\('content'\)) is string) -%\}"
            r"(\s*\{%- if role == 'model' -%\}\s*\{\{- )strip_thinking\((message\['content'\])\)",
            r"{%- if role == 'model' and message.get('tool_calls') and not message.get('tool_responses')"
            r" and message['content'] is string -%}{%- elif \1 -%}\2\3",
        ),
        Edit(
            "nor the turn closed there",
            r"(not \(ns_tr_out\.flag and )not message\.get\('content'\)\)",
            r"\1(message.get('tool_calls') and not message.get('tool_responses') or not message.get('content')))",
        ),
        Edit(
            "thinking is announced as it was at first",
            r"\{%- if enable_thinking(?: is defined and enable_thinking)? -%\}(\s*\{\{- '<\|think\|>\\n' -\}\})",
            r"{%- if think_first if think_first is defined else (enable_thinking | default(false)) -%}\1",
        ),
        Edit(
            "and thought of later in a channel opened for it",
            r"(\{\{- '<\|turn>model\\n' -\}\})(\s*(?:\{%- if not enable_thinking|\{%- elif|\{%- endif))",
            r"\1{%- if (enable_thinking | default(false)) and think_first is defined and not think_first -%}"
            r"{{- '<|channel>thought\\n' -}}{%- endif -%}\2",
        ),
    ),
    "peg-gemma4",
)
QWEN3 = Patch(
    "qwen3",
    ("<|im_start|>", "<think>", "ns.last_query_index"),
    (
        Edit(
            "thoughts, and their empty block, stay in history",
            r"(\{%- if )loop\.index0 > ns\.last_query_index( %\})",
            r"\1true\2",
        ),
        Edit(
            "also in a message that is not the last",
            r"(\{%- if )loop\.last or \(not loop\.last and reasoning_content\)( %\})",
            r"\1true\2",
        ),
    ),
)
PATCHES = (GEMMA4, QWEN3)


def append_only(template: str) -> Derived | None:
    """None where the family is not known, or nothing in its template is to be mended."""
    patch = next((p for p in PATCHES if all(mark in template for mark in p.marks)), None)
    if patch is None:
        return None
    text, applied = template, list[str]()
    for edit in patch.edits:
        if len(re.findall(edit.pattern, text)) == 1:
            text = re.sub(edit.pattern, edit.new, text)
            applied.append(edit.about)
    return Derived(patch.family, text, tuple(applied), patch.chat_format) if applied else None


@dataclass(frozen=True, slots=True)
class LaunchTemplate:
    """A derived template as a file for one engine. `refused`: where it is noted that the engine cannot use it."""

    file: Path
    chat_format: str
    refused: Path

    def refuse(self, why: str) -> None:
        """The next start does not try it again. A place that cannot be written only costs that start a moment."""
        with contextlib.suppress(OSError):
            self.refused.write_text(why, encoding="utf-8")


def launch_template(template: str, folder: Path, engine: str) -> LaunchTemplate | None:
    """`engine`: its version. None: nothing to mend, found unfit before, or no place to write it."""
    derived = append_only(template)
    if derived is None:
        return None
    digest = hashlib.sha256(derived.text.encode()).hexdigest()[:16]
    file = folder / f"{derived.family}-{digest}.jinja"
    refused = folder / f"{derived.family}-{digest}.{hashlib.sha256(engine.encode()).hexdigest()[:8]}.refused"
    if refused.exists():
        return None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not file.exists() or file.read_text(encoding="utf-8") != derived.text:
            part = file.with_suffix(".part")
            part.write_text(derived.text, encoding="utf-8")
            part.replace(file)
    except (OSError, UnicodeError):
        return None
    return LaunchTemplate(file, derived.chat_format, refused)
