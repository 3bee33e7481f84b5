"""The planner's arithmetic for Gemma 4 31B with its drafter, its choices on several cards, and its properties."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.errors import ConfigError, RuntimeFailure
from agent.runtime.gguf import GgufFacts
from agent.runtime.hardware import Gpu, GpuUser, Machine
from agent.runtime.plan import Plan
from agent.runtime.planner import (
    GIB,
    MIB,
    VRAM_KEPT,
    Wish,
    checkpoint_bytes,
    compute_bytes,
    descend,
    kv_bytes,
    make_plan,
    room,
    sliding_cells,
    table,
)

KIB = 1024
SLIDING = tuple((n + 1) % 6 != 0 for n in range(60))
GEMMA = GgufFacts(
    file="gemma-4-31B-it-Q4_K_S.gguf",
    architecture="gemma4",
    name="Gemma 4 31B",
    quantisation="Q4_K_S",
    file_bytes=int(16.2 * GIB),
    tensor_bytes=int(16.2 * GIB),
    embedding_bytes=int(1.08 * GIB),
    tied=True,
    n_layer=60,
    n_embd=5376,
    n_ff=21504,
    heads=(32,) * 60,
    kv_heads=tuple(16 if s else 4 for s in SLIDING),
    key_length=512,
    value_length=512,
    key_length_swa=256,
    value_length_swa=256,
    context_length=262144,
    vocabulary=262144,
    window=1024,
    sliding=SLIDING,
)
DRAFT = GgufFacts(
    file="gemma4-31b-it-dflash-Q5_K_M.gguf",
    architecture="dflash",
    name="",
    quantisation="Q5_K_M",
    file_bytes=GIB,
    tensor_bytes=GIB,
    embedding_bytes=0,
    tied=False,
    n_layer=5,
    n_embd=5376,
    n_ff=10752,
    heads=(64,) * 5,
    kv_heads=(8,) * 5,
    key_length=128,
    value_length=128,
    key_length_swa=128,
    value_length_swa=128,
    context_length=262144,
    vocabulary=262144,
    block_size=16,
    mask_token=4,
    target_layers=(2, 13, 24, 36, 47, 58),
)
F16, Q8, Q5 = ("f16", "f16"), ("q8_0", "q8_0"), ("q5_0", "q4_1")
WISH = Wish(32768, 16384, (F16, Q8), gpu=True)


def card(free: float, name: str = "NVIDIA GeForce RTX 4090", users: tuple[GpuUser, ...] = ()) -> Machine:
    """A machine with 64 GB of RAM and one card with `free` GiB free."""
    gpu = Gpu(name, f"GPU-{name}", int((free + 0.5) * GIB), int(free * GIB), "8.9", users)
    return Machine(gpus=(gpu,), cores=16, ram_total=64 * GIB, ram_available=56 * GIB, memlock=None)


def host(ram: float, memlock: int | None = None) -> Machine:
    return Machine(
        no_gpu="no NVIDIA driver answers", ram_total=int(ram * GIB), ram_available=int(ram * GIB), memlock=memlock
    )


def used(plan: Plan, where: str = "vram") -> int:
    return sum(c.bytes for c in plan.costs if c.where == where)


@pytest.mark.parametrize(
    ("pair", "kib", "full", "sliding", "total"),
    [(F16, 80, 2.50, 1.17, 3.7), (Q8, 42.5, 1.33, 0.62, 1.95), (Q5, 26.25, 0.82, 0.39, 1.2)],
)
def test_the_kv_cache_of_gemma_4_31b_costs_what_its_shape_says(
    pair: tuple[str, str], kib: float, full: float, sliding: float, total: float
) -> None:
    one, _ = kv_bytes(GEMMA, 256, 512, *pair)
    assert one / 256 == kib * KIB
    at_32k = [size / GIB for size in kv_bytes(GEMMA, 32768, 512, *pair)]
    assert at_32k == pytest.approx([full, sliding], abs=0.006) and sum(at_32k) == pytest.approx(total, abs=0.04)


@pytest.mark.parametrize(
    ("ctx", "ubatch", "cells"),
    [
        (32768, 512, 1536),
        (262144, 512, 1536),
        (32768, 256, 1280),
        (1024, 512, 1024),
        (1000, 512, 1024),
        (256, 512, 256),
    ],
)
def test_a_sliding_cache_holds_window_and_pass_but_never_more_than_the_context(
    ctx: int, ubatch: int, cells: int
) -> None:
    assert sliding_cells(GEMMA, ctx, ubatch) == cells


def test_layers_that_share_a_cache_cost_nothing() -> None:
    whole, shared = kv_bytes(GEMMA, 4096, 512, *F16), kv_bytes(replace(GEMMA, shared_kv_layers=6), 4096, 512, *F16)
    assert (shared[0] / whole[0], shared[1] / whole[1]) == (9 / 10, 45 / 50)


def test_f16_at_32k_needs_about_22_5_gib_and_the_driver_s_share() -> None:
    plan = make_plan(GEMMA, DRAFT, card(40), WISH)
    assert (plan.ctx, plan.cache_type_k, plan.ubatch, plan.rung, plan.notes) == (32768, "f16", 512, 0, ())
    costs = {c.name: c.bytes / GIB for c in plan.costs if c.where == "vram"}
    assert costs["drafter KV cache"] == pytest.approx(0.625)
    assert costs["compute"] + costs["drafter compute"] == pytest.approx(1.2, abs=0.1)
    assert sum(costs.values()) - costs["CUDA"] == pytest.approx(22.6, abs=0.15)
    saved = used(plan) - used(make_plan(GEMMA, DRAFT, card(40), replace(WISH, kv=(Q8,))))
    assert saved / GIB == pytest.approx(1.72 - 0.25, abs=0.02), "less a copy of one layer to f16"


@pytest.mark.parametrize(
    ("free", "kv", "ubatch", "ctx", "rung"),
    [
        (31.5, "f16", 512, 32768, 0),  # 32 GB
        (23.5, "q8_0", 512, 32768, 1),  # 24 GB without a screen
        (22.3, "q8_0", 256, 32768, 2),  # 24 GB that drives one
        (21.5, "q8_0", 256, 24576, 3),
        (21.0, "q8_0", 256, 16384, 4),
    ],
)
def test_a_card_gets_the_best_that_fits(free: float, kv: str, ubatch: int, ctx: int, rung: int) -> None:
    plan = make_plan(GEMMA, DRAFT, card(free), WISH)
    assert (plan.cache_type_k, plan.ubatch, plan.ctx, plan.rung) == (kv, ubatch, ctx, rung)
    assert used(plan) <= free * GIB - VRAM_KEPT and len(plan.notes) == sum([kv != "f16", ubatch < 512, ctx < 32768])


def test_fewer_bits_are_the_last_resort_and_only_where_they_are_allowed() -> None:
    with pytest.raises(RuntimeFailure):
        make_plan(GEMMA, DRAFT, card(20.5), WISH)
    plan = make_plan(GEMMA, DRAFT, card(20.5), replace(WISH, kv=(F16, Q8, Q5)))
    assert (plan.cache_type_k, plan.cache_type_v, plan.ctx) == ("q5_0", "q4_1", 16384)


def test_what_does_not_fit_is_one_sentence_with_figures_and_remedies() -> None:
    users = (GpuUser(31, "game", 3 * GIB), GpuUser(32, "Xorg", 300 * MIB), GpuUser(33, "clock", MIB))
    with pytest.raises(RuntimeFailure) as caught:
        make_plan(GEMMA, DRAFT, card(12, users=users), WISH)
    text = str(caught.value)
    for part in (
        *("gemma-4-31B-it-Q4_K_S.gguf does not fit", "16384 tokens", "q8_0/q8_0", "12.0 GiB free on NVIDIA GeForce"),
        *("11.0 GiB may be used", "close game (pid 31, 3.0 GiB)", "close Xorg (pid 32, 0.3 GiB)"),
        *("smaller drafter file", "--no-dflash, which saves", "smaller model file"),
    ):
        assert part in text
    assert "clock" not in text and text.count(".\n") == 0
    with pytest.raises(RuntimeFailure) as caught:
        make_plan(GEMMA, None, host(12), replace(WISH, gpu=False))
    assert "of RAM" in str(caught.value) and "dflash" not in str(caught.value)


def test_an_engine_for_the_gpu_without_one_is_refused_with_the_reason() -> None:
    with pytest.raises(RuntimeFailure, match="no NVIDIA driver answers"):
        make_plan(GEMMA, DRAFT, host(64), WISH)


def test_a_machine_without_a_card_plans_with_its_ram() -> None:
    plan = make_plan(GEMMA, DRAFT, host(64), replace(WISH, gpu=False, threads=8))
    assert (plan.gpu, plan.threads, plan.ctx, plan.cache_type_k) == (False, 8, 32768, "f16")
    assert not any(c.where == "vram" or c.name == "CUDA" for c in plan.costs) and used(plan, "ram") < 62 * GIB


def test_the_context_is_never_longer_than_the_model_was_trained_for() -> None:
    plan = make_plan(replace(GEMMA, context_length=8192), None, card(40), WISH)
    assert plan.ctx == 8192 and "trained for 8192" in plan.notes[0]


def test_two_cards_count_together_and_each_keeps_its_reserve() -> None:
    one = card(13).gpus[0]
    machine = replace(card(13), gpus=(one, replace(one, uuid="other")))
    plan = make_plan(GEMMA, DRAFT, machine, WISH)
    assert plan.room == 24 * GIB and used(plan) <= plan.room and "2 cards" in plan.notes[-1]


def test_checkpoints_hold_the_window_and_all_of_a_drafter_that_does_not_slide() -> None:
    assert checkpoint_bytes(GEMMA, None, 32768, *F16) == 1024 * 800 * KIB
    assert checkpoint_bytes(GEMMA, DRAFT, 32768, *F16) == 1024 * 800 * KIB + 32768 * 20 * KIB
    slides = replace(DRAFT, window=2048, sliding=(True,) * 5)
    assert checkpoint_bytes(GEMMA, slides, 32768, *F16) == 1024 * 800 * KIB + 2048 * 20 * KIB
    assert checkpoint_bytes(replace(GEMMA, sliding=(), window=0), DRAFT, 32768, *F16) == 0


@pytest.mark.parametrize(("ram", "checkpoints", "cache"), [(56, 4, 8192), (10, 4, 600), (5.6, 2, 160), (2, 0, 215)])
def test_host_memory_is_given_away_only_where_it_is_spare(ram: float, checkpoints: int, cache: int) -> None:
    plan = make_plan(GEMMA, DRAFT, replace(card(40), ram_available=int(ram * GIB)), WISH)
    assert plan.checkpoints == checkpoints and plan.cache_ram == pytest.approx(cache, abs=130)
    assert used(plan, "ram") <= max(room(replace(card(40), ram_available=int(ram * GIB)), False), int(1.1 * GIB))


def test_pages_are_locked_only_as_far_as_limit_and_memory_go() -> None:
    for machine, locks in ((card(40), True), (replace(card(40), memlock=8 * MIB), False)):
        assert make_plan(GEMMA, DRAFT, machine, WISH).mlock is locks
    cpu = replace(WISH, gpu=False)
    assert make_plan(GEMMA, DRAFT, host(64, 18 * GIB), cpu).mlock
    assert not make_plan(GEMMA, DRAFT, host(64, 17 * GIB), cpu).mlock


def test_descending_loses_the_cheapest_first_and_ends() -> None:
    wish = replace(WISH, kv=(F16, Q8, Q5))
    plan: Plan | None = make_plan(GEMMA, DRAFT, card(40), wish)
    seen = []
    while plan is not None:
        seen.append((plan.cache_type_k, plan.ubatch, plan.ctx))
        plan = descend(plan, GEMMA, DRAFT, card(40), wish)
    assert seen == [
        ("f16", 512, 32768),
        ("q8_0", 512, 32768),
        ("q8_0", 256, 32768),
        ("q8_0", 256, 24576),
        ("q8_0", 256, 16384),
        ("q5_0", 256, 16384),
    ]


def test_a_later_start_may_begin_at_a_rung_that_worked() -> None:
    assert make_plan(GEMMA, DRAFT, card(40), WISH, rung=2).rung == 2
    assert make_plan(GEMMA, DRAFT, card(40), WISH, rung=99).ctx == 16384
    assert make_plan(GEMMA, DRAFT, card(22.3), WISH, rung=1).rung == 2


def test_a_type_of_unknown_size_is_a_mistake_in_the_profile() -> None:
    with pytest.raises(ConfigError, match="'q9_9' is not a KV cache type"):
        Wish(4096, 1024, (("f16", "q9_9"),))
    with pytest.raises(ConfigError, match="No KV cache type"):
        Wish(4096, 1024, ())


def test_the_table_shows_settings_costs_sums_and_notes() -> None:
    lines = table(make_plan(GEMMA, DRAFT, card(23.5), WISH)).splitlines()
    assert lines[0].startswith("context 32768 tokens, KV q8_0/q8_0, batch 2048/512, 4 checkpoints")
    assert any(line.startswith("vram   16.20 GiB  weights") and line.endswith("Q4_K_S 60 layers") for line in lines)
    assert any("42.5 KiB per token" in line for line in lines) and any("of 22.5 GiB usable" in line for line in lines)
    assert lines[-1] == "- the KV cache is q8_0/q8_0 instead of f16/f16 to fit" and max(map(len, lines)) < 120


PAIRS = st.lists(
    st.sampled_from([F16, ("bf16", "bf16"), Q8, Q5, ("iq4_nl", "q4_0")]), min_size=1, max_size=4, unique=True
)
WISHES = st.builds(
    lambda ctx, least, kv, gpu: Wish(ctx, min(ctx, least), tuple(kv), gpu),
    st.integers(256, 300_000),
    st.integers(256, 65_536),
    PAIRS,
    st.booleans(),
)
DRAFTS = st.sampled_from([None, DRAFT, replace(DRAFT, window=2048, sliding=(True,) * 4 + (False,))])


def planned(free: float, draft: GgufFacts | None, wish: Wish) -> Plan | None:
    try:
        return make_plan(GEMMA, draft, card(free) if wish.gpu else host(free), wish)
    except RuntimeFailure:
        return None


@settings(deadline=None)
@given(free=st.floats(2, 80), more=st.floats(0, 40), draft=DRAFTS, wish=WISHES)
def test_more_memory_never_shortens_the_context(free: float, more: float, draft: GgufFacts | None, wish: Wish) -> None:
    little, much = planned(free, draft, wish), planned(free + more, draft, wish)
    if little is not None:
        assert much is not None and much.ctx >= little.ctx and much.rung <= little.rung


@settings(deadline=None)
@given(free=st.floats(2, 80), draft=DRAFTS, wish=WISHES)
def test_a_plan_stays_within_what_may_be_used(free: float, draft: GgufFacts | None, wish: Wish) -> None:
    plan = planned(free, draft, wish)
    if plan is not None:
        assert wish.min_ctx <= plan.ctx <= wish.ctx and plan.room == room(
            card(free) if wish.gpu else host(free), wish.gpu
        )
        assert used(plan, "vram" if wish.gpu else "ram") <= plan.room
        assert not wish.gpu or used(plan) <= free * GIB - GIB


@settings(deadline=None)
@given(free=st.floats(10, 80), draft=DRAFTS, wish=WISHES)
def test_every_descent_needs_less_and_ends(free: float, draft: GgufFacts | None, wish: Wish) -> None:
    machine = card(free) if wish.gpu else host(free)
    plan = planned(free, draft, wish)
    steps = 0
    while plan is not None:
        lower = descend(plan, GEMMA, draft, machine, wish)
        if lower is not None:
            device = {"checkpoints", "prompt cache", "token embedding"}
            assert sum(c.bytes for c in lower.costs if c.name not in device) < sum(
                c.bytes for c in plan.costs if c.name not in device
            )
            assert lower.ctx <= plan.ctx and lower.rung > plan.rung
        plan, steps = lower, steps + 1
        assert steps < 40


def test_compute_buffers_grow_with_the_pass_and_with_the_context() -> None:
    sizes = [
        compute_bytes(GEMMA, ctx, ub, "f16", "f16", True) for ctx, ub in ((32768, 512), (32768, 256), (65536, 256))
    ]
    assert sizes[1] < sizes[2] < sizes[0]
