"""Facts of model files that are not here yet, so that a start can be planned before 18 GB are fetched.

Sources: the load log in llama.cpp's issue 24758, the model cards, and the sizes in the profiles.
"""

from __future__ import annotations

from agent.runtime.gguf import GgufFacts

_LAYERS = 60  # of Gemma 4 31B: every sixth sees all, the others 1,024 tokens
_ALL = tuple(n % 6 == 5 for n in range(_LAYERS))
KNOWN: dict[str, GgufFacts] = {
    "gemma-4-31B-it-Q4_K_S.gguf": GgufFacts(
        *("gemma-4-31B-it-Q4_K_S.gguf", "gemma4", "Gemma 4 31B", "Q4_K_S", 17_400_000_000, 17_400_000_000),
        *(1_160_000_000, True, _LAYERS, 5376, 21504, (32,) * _LAYERS, tuple(4 if full else 16 for full in _ALL)),
        *(512, 512, 256, 256, 262_144, 262_144),
        window=1024,
        sliding=tuple(not full for full in _ALL),
    ),
    "gemma4-31b-it-dflash-Q5_K_M.gguf": GgufFacts(
        *("gemma4-31b-it-dflash-Q5_K_M.gguf", "dflash", "Gemma 4 31B DFlash", "Q5_K_M", 1_090_000_000, 1_090_000_000),
        *(0, False, 5, 5376, 10752, (64,) * 5, (8,) * 5, 128, 128, 128, 128, 262_144, 262_144),
        window=2048,
        block_size=16,
        mask_token=4,
        target_layers=(2, 13, 24, 36, 47, 58),
    ),
}
