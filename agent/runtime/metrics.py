"""What a server has counted since it started, from its Prometheus page.

Names as llama.cpp b11434 (tools/server/server-task.cpp), vLLM (vllm/v1/spec_decode/metrics.py) and SGLang
(srt/metrics/collector.py) write them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import httpx2
from prometheus_client.parser import text_string_to_metric_families

PATIENCE = 1.5  # seconds; a page of text from memory
_DRAFTED = ("llamacpp:spec_decode_num_draft_tokens_total", "vllm:spec_decode_num_draft_tokens_total")
_ACCEPTED = ("llamacpp:spec_decode_num_accepted_tokens_total", "vllm:spec_decode_num_accepted_tokens_total")
_GENERATED = ("llamacpp:tokens_predicted_total", "vllm:generation_tokens_total", "sglang:generation_tokens_total")
_READ = ("llamacpp:prompt_tokens_total", "vllm:prompt_tokens_total", "sglang:prompt_tokens_total")
_RATE, _LENGTH = ("sglang:spec_accept_rate",), ("sglang:spec_accept_length",)


@dataclass(frozen=True, slots=True)
class Totals:
    """Tokens since the server started; None where it does not count them. rate: share of the drafted tokens that were
    accepted lately, length: tokens of one target step lately (SGLang has these means alone)."""

    drafted: float | None = None
    accepted: float | None = None
    generated: float | None = None
    read: float | None = None
    rate: float | None = None
    length: float | None = None

    @property
    def drafts(self) -> bool:
        """Whether drafting can be told from them."""
        return self.drafted is not None or bool(self.rate and self.length)


def read_totals(page: str) -> Totals:
    """Of all models and ranks of the server together; means as the server gives them."""
    samples: dict[str, list[float]] = {}
    try:
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                samples.setdefault(sample.name, []).append(float(sample.value))
    except ValueError:
        return Totals()

    def total(names: Iterable[str]) -> float | None:
        found = [v for name in names for v in samples.get(name, ())]
        return sum(found) if found else None

    def mean(names: Iterable[str]) -> float | None:
        found = [v for name in names for v in samples.get(name, ())]
        return sum(found) / len(found) if found else None

    return Totals(total(_DRAFTED), total(_ACCEPTED), total(_GENERATED), total(_READ), mean(_RATE), mean(_LENGTH))


async def scrape(client: httpx2.AsyncClient) -> Totals:
    """Empty where there is no such page."""
    try:
        answer = await client.get("/metrics", timeout=PATIENCE)
    except httpx2.HTTPError:
        return Totals()
    return read_totals(answer.text) if answer.status_code == 200 else Totals()


def drafts_between(before: Totals, after: Totals, generated: int) -> tuple[int, int] | None:
    """(drafted, accepted) tokens of one reply of `generated` tokens, if no other ran beside it. None: not known. From
    means it is reckoned: each target step yields one token of its own besides the accepted ones."""
    if None not in (before.drafted, before.accepted, after.drafted, after.accepted):
        drafted = (after.drafted or 0) - (before.drafted or 0)
        accepted = (after.accepted or 0) - (before.accepted or 0)
        return (int(drafted), int(accepted)) if 0 <= accepted <= drafted and drafted > 0 else None
    if after.rate and after.length and after.length > 1 and generated:
        accepted = generated * (1 - 1 / after.length)
        return round(accepted / after.rate), round(accepted)
    return None
