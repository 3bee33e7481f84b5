"""What the planner reckons against what the real engine logs, and what a published model's header says."""

from __future__ import annotations

import re
from pathlib import Path

import httpx2
import pytest

from agent.runtime.gguf import read_gguf
from agent.runtime.planner import MIB, checkpoint_bytes, compute_bytes, kv_bytes
from tests.real.conftest import Start, tiny_profile
from tests.real.tiny import Tiny
from tests.runtime.test_gguf import agrees_with_the_oracle

pytestmark = pytest.mark.real


def test_a_published_model_is_read_as_the_reference_reads_it(smollm2: Path) -> None:
    facts = agrees_with_the_oracle(smollm2)
    assert facts.tied and facts.quantisation == "Q4_1" and facts.key_length == 64


def logged(log: Path, what: str) -> list[float]:
    """All figures in MiB behind `what`."""
    return [float(n) for n in re.findall(rf"{what}\D*?([0-9.]+) MiB", log.read_text(errors="replace"))]


@pytest.mark.parametrize(("ubatch", "kinds"), [(512, ("f16", "f16")), (256, ("q8_0", "q5_1"))])
async def test_the_cache_takes_what_was_reckoned_to_a_hundredth_of_a_mib(
    start: Start, talker: Tiny, tmp_path: Path, ubatch: int, kinds: tuple[str, str]
) -> None:
    """The log rounds to 0.01 MiB. The compute buffers are estimates: at most three times too high here, and a
    fifth too low (they grow a little in the first replies); the planner keeps 1 GiB free beside them."""
    flags = ("--flash-attn", "on", "--ubatch-size", str(ubatch))
    flags += ("--cache-type-k", kinds[0], "--cache-type-v", kinds[1])
    await start(talker.target, talker.draft, profile=tiny_profile(flags={"any": flags})).ensure_ready()
    target, draft = read_gguf(talker.target), read_gguf(talker.draft)
    reckoned = [*kv_bytes(target, 4096, ubatch, *kinds), kv_bytes(draft, 4096, ubatch, "f16", "f16")[0]]
    log = tmp_path / "engine" / "engine.log"
    assert [b / MIB for b in reckoned] == pytest.approx(logged(log, "KV buffer size"), abs=0.006)
    buffers = logged(log, "compute buffer size")
    for estimate, real in (
        (compute_bytes(target, 4096, ubatch, *kinds, gpu=False), buffers[0]),
        (compute_bytes(draft, 4096, ubatch, "f16", "f16", gpu=False), max(buffers[1:])),
    ):
        assert real / 1.2 <= estimate / MIB <= 3 * real


async def test_a_checkpoint_takes_no_more_than_was_reckoned(start: Start, talker: Tiny, tmp_path: Path) -> None:
    endpoint = await start(talker.target, talker.draft).ensure_ready()
    body = {"messages": [{"role": "user", "content": "Q" * 2500}], "max_tokens": 4}
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {endpoint.api_key}"}, timeout=60) as client:
        answer = await client.post(f"{endpoint.base_url}/v1/chat/completions", json=body)
    assert answer.status_code == 200
    read = answer.json()["usage"]["prompt_tokens"]
    reckoned = checkpoint_bytes(read_gguf(talker.target), read_gguf(talker.draft), read, "f16", "f16") / MIB
    sizes = logged(tmp_path / "engine" / "engine.log", r"created context checkpoint[^\n]*size =")
    assert sizes and 0.7 * reckoned <= max(sizes) <= 1.02 * reckoned
