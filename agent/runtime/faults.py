"""What an engine's last words mean: one sentence for the user, and what may help."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

FAULT_LINES = 400  # newest lines that are looked at for a cause
FaultKind: TypeAlias = Literal["", "port", "memory", "draft", "engine", "template"]


@dataclass(frozen=True, slots=True)
class Fault:
    """kind: what may help: another port, a smaller plan, another way of drafting, another engine, the model's own
    template, or none of these. killed: by a signal that the kernel sends when memory is short, but anybody may send."""

    kind: FaultKind
    sentence: str
    killed: bool = False


_MEMORY = (
    "Not enough memory for the model and its context. Close what uses the memory, or use a smaller context (--ctx)."
)
_FAULTS: tuple[tuple[str, FaultKind, str], ...] = (
    (r"couldn't bind HTTP server socket", "port", "The port was taken by another program. Start again."),
    (
        r"failed to open GGUF file '([^']*)'",
        "",
        "The model file {0} cannot be opened. Check that it is there and readable.",
    ),
    (
        r"invalid magic characters",
        "",
        "The model file {file} is not a GGUF file (perhaps a web page was saved). Delete it and fetch it again.",
    ),
    (
        r"data is not within the file bounds|wrong number of tensors",
        "",
        "The model file {file} is cut off or damaged. Delete it and fetch it again.",
    ),
    (
        r"error: invalid argument: (\S+)",
        "engine",
        "The engine does not know the flag {0}. The profile is for another version of it.",
    ),
    (r"error while handling argument \"([^\"]*)\": ?(.*)", "engine", "The engine refused the flag {0}: {1}"),
    (
        r"error while loading shared libraries: (\S+?):",
        "engine",
        "The engine lacks the library {0}. Build the engine again: dflash-agent setup.",
    ),
    (
        r"CUDA driver version is insufficient",
        "engine",
        "The GPU driver is too old for this engine. Update the driver, or build the engine again: dflash-agent setup.",
    ),
    (
        r"no kernel image is available",
        "engine",
        "The engine was built for another kind of GPU. Build it again: dflash-agent setup.",
    ),
    (
        r"unknown model architecture: '(dflash[^']*)'",
        "draft",
        "This engine cannot run draft models of the kind {0}. It needs another engine, or another draft file.",
    ),
    (
        r"unknown model architecture: '([^']*)'",
        "engine",
        "This engine cannot run models of the kind {0}. It needs another engine.",
    ),
    (
        r"requires 'target_layers'",
        "draft",
        "The draft model {file} was made for another engine. Use a draft in the `dflash` format.",
    ),
    (r"failed to create MTP context", "memory", "Not enough memory for the draft model."),
    (
        r"(?i:out of memory|failed to allocate|unable to allocate|ErrorOutOfDeviceMemory)",
        "memory",
        _MEMORY,
    ),
    (
        r"failed to load draft model",
        "draft",
        "The draft model {file} cannot be loaded. Delete it and fetch it again.",
    ),
    (
        r"(?:speculative\.cpp|dflash\.cpp|llama-ext\.cpp)[^\n]*GGML_ASSERT|GGML_ASSERT[^\n]*(?:draft|spec|target_layer)",
        "draft",
        "The draft model does not belong to this model: the engine broke off.",
    ),
    (r"failed to initialize chat template", "template", "was tried, and the engine cannot read it."),
    (
        r"argmax\.cu:\d+: GGML_ASSERT\(K <= 32\)",
        "engine",
        "This engine breaks at top-k above 32. Set top_k = 20 in the profile, or use a newer engine.",
    ),
    (
        r"CUDA error: ([^\n]*)",
        "",
        "The GPU failed ({0}). Start again; if it happens again, look at the driver (nvidia-smi, dmesg).",
    ),
    (r"GGML_ASSERT\(([^\n]*)\) failed", "", "The engine broke off at a check of its own ({0})."),
    (r"failed to load model", "", "The model {file} cannot be loaded. Delete it and fetch it again."),
)
# the newest of these names the file that the lines before it are about
_FILE = re.compile(r"failed to load (?:draft )?model,? '([^'\n]+)'|failed to load model from (/[^\n]+)")
_SIGNALS = {
    4: "The engine uses instructions that this processor lacks. Build it again here: dflash-agent setup.",
    9: "The engine was killed (signal 9), mostly because memory ran out. Use a smaller context (--ctx) or model.",
}


def explain(lines: Sequence[str], status: int, doing: str, log: Path) -> Fault:
    """What became of an engine that ended: one sentence with the next step. `status` -N: killed by signal N."""
    text = "\n".join(lines)
    files = [one or other for one, other in _FILE.findall(text)]
    file = files[-1] if files else f"(see {log})"
    for pattern, kind, sentence in _FAULTS:
        if found := re.search(pattern, text):
            return Fault(kind, sentence.format(*found.groups(), file=file))
    if -status in _SIGNALS:
        return Fault("memory" if status == -9 else "engine", _SIGNALS[-status], killed=status == -9)
    if status < 0:
        return Fault("", f"The engine was ended by signal {-status} {doing}; its log is {log}.")
    last = f" Its last words: {lines[-1]}" if lines else ""
    return Fault("", f"The engine ended with status {status} {doing}; its log is {log}.{last}")
