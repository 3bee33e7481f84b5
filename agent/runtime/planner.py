"""How an engine should use this machine: pure arithmetic on the model's header and the machine's figures.

The KV figures are exact (llama.cpp b11434 src/llama-kv-cache.cpp, src/llama-kv-cache-iswa.cpp); compute buffers are
estimates on the safe side. What does not fit descends a ladder, cheapest loss first: a KV cache of 8 bits, a smaller
pass, a shorter context, a KV cache of fewer bits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from agent.errors import ConfigError, RuntimeFailure
from agent.runtime.gguf import GgufFacts
from agent.runtime.hardware import Machine
from agent.runtime.plan import Cost, Plan

MIB, GIB = 1 << 20, 1 << 30
VRAM_KEPT = GIB  # on each card, for the screen, fragmentation, and other programs' growth
RAM_KEPT = 2 * GIB  # for the agent's own commands; a quarter where there is little
CUDA_CONTEXT = 400 * MIB  # driver, kernels and cuBLAS of one process on one card; no log of the engine names it
UBATCHES = (512, 256)  # the engine's default first
CHECKPOINTS = 4  # a request makes up to three: at the last user message and twice before the end of the prompt
CACHE_RAM_MOST = 8192  # MiB; the engine's own default
DRAFT_KV = "f16"  # the engine's default; quantising it gains little, as compute buffers outweigh it
OUTPUTS = 16  # tokens whose logits one step of speculation needs: a draft block
USER_SHOWN = 64 * MIB  # smaller users of a card are not worth closing
PAD = 256  # cells: contexts and sliding caches are rounded up to it (src/llama-context.cpp, llama-kv-cache-iswa.cpp)

# KV cache type -> (elements, bytes) of a block with its scales; ggml/src/ggml-common.h
KV_TYPES = {
    **{"f32": (1, 4), "f16": (1, 2), "bf16": (1, 2), "q8_0": (32, 34), "q5_1": (32, 24), "q5_0": (32, 22)},
    **{"q4_1": (32, 20), "q4_0": (32, 18), "iq4_nl": (32, 18)},
}


@dataclass(frozen=True, slots=True)
class Wish:
    """ctx, min_ctx: tokens, wished and least. kv: allowed (k, v) cache types, best first, only those for which the
    engine has fast kernels. gpu: the engine computes on the GPU. threads: None: the engine's choice."""

    ctx: int
    min_ctx: int
    kv: tuple[tuple[str, str], ...] = (("f16", "f16"),)
    gpu: bool = False
    threads: int | None = None

    def __post_init__(self) -> None:
        """Raises ConfigError: a type whose size is not known cannot be planned with."""
        unknown = [t for pair in self.kv for t in pair if t not in KV_TYPES]
        if unknown or not self.kv:
            wrong = f"{unknown[0]!r} is not a KV cache type" if unknown else "No KV cache type is allowed"
            raise ConfigError(f"{wrong}; the planner knows {', '.join(KV_TYPES)}.")


@dataclass(frozen=True, slots=True)
class _Rung:
    k: str
    v: str
    ubatch: int
    ctx: int
    need: int = 0  # bytes where the engine computes


def make_plan(target: GgufFacts, draft: GgufFacts | None, machine: Machine, wish: Wish, rung: int = 0) -> Plan:
    """The plan of the first rung that fits, from `rung` downwards (0: the best). Raises RuntimeFailure with the
    figures and the remedies when none does, or when the engine wants a GPU and there is none."""
    if wish.gpu and not machine.gpus:
        why = machine.no_gpu or "none was found"
        raise RuntimeFailure(f"This engine computes on a GPU and there is none: {why}; take the profile smoke.")
    ladder = _ladder(target, draft, machine, wish)
    for number, one in enumerate(ladder):
        if number >= min(rung, len(ladder) - 1) and one.need <= room(machine, wish.gpu):
            return _plan(target, draft, machine, wish, ladder, number)
    raise RuntimeFailure(_no_way(target, draft, machine, wish, ladder[-1]))


def descend(plan: Plan, target: GgufFacts, draft: GgufFacts | None, machine: Machine, wish: Wish) -> Plan | None:
    """The next plan to try after `plan` ran out of memory, by arithmetic a fitting one; None: there is no more. Each
    needs less than the one before, so this ends."""
    if plan.rung + 1 >= len(_ladder(target, draft, machine, wish)):
        return None
    try:
        return make_plan(target, draft, machine, wish, plan.rung + 1)
    except RuntimeFailure:
        return None


def table(plan: Plan) -> str:
    """Aligned lines: the settings, what each thing costs, the sums, the notes."""
    head = f"context {plan.ctx} tokens, KV {plan.cache_type_k}/{plan.cache_type_v}, "
    head += f"batch {plan.batch}/{plan.ubatch}, {plan.checkpoints} checkpoints, prompt cache {plan.cache_ram} MiB"
    rows = [(c.where, c.bytes, c.name, c.note) for c in plan.costs]
    device = "vram" if plan.gpu else "ram"
    for where in dict.fromkeys(c.where for c in plan.costs):
        total = sum(c.bytes for c in plan.costs if c.where == where)
        rows.append((where, total, "together", f"of {_gib(plan.room)} usable" if where == device else ""))
    width = max((len(name) for _, _, name, _ in rows), default=0)
    lines = [f"{where:4} {size / GIB:7.2f} GiB  {name:{width}}  {note}".rstrip() for where, size, name, note in rows]
    return "\n".join([head, *lines, *(f"- {n}" for n in plan.notes)])


def room(machine: Machine, gpu: bool) -> int:
    """Bytes an engine may use: of VRAM, or of RAM without a GPU. Several cards count together, as the engine spreads
    the layers over them."""
    if gpu:
        return sum(max(0, g.free - VRAM_KEPT) for g in machine.gpus)
    return machine.ram_available - min(RAM_KEPT, machine.ram_available // 4)


def kv_bytes(facts: GgufFacts, ctx: int, ubatch: int, k: str, v: str) -> tuple[int, int]:
    """Bytes of the KV cache (full layers, sliding layers) at a context of `ctx` tokens."""
    full, sliding = _per_token(facts, k, v)
    return full * _pad(ctx), sliding * sliding_cells(facts, ctx, ubatch)


def sliding_cells(facts: GgufFacts, ctx: int, ubatch: int) -> int:
    """Tokens that the cache of a sliding layer holds (src/llama-kv-cache-iswa.cpp), for one sequence."""
    return _pad(min(_pad(ctx), facts.window + ubatch))


def checkpoint_bytes(target: GgufFacts, draft: GgufFacts | None, ctx: int, k: str, v: str) -> int:
    """Host bytes of one checkpoint, which is made for sliding models only: the window of the sliding caches; of a
    drafter that does not slide all (tools/server/server-context.cpp create_checkpoint, llama_kv_cache::state_write)."""
    if not any(target.sliding):
        return 0
    size = _per_token(target, k, v)[1] * min(target.window, ctx)
    if draft is not None:
        full, sliding = _per_token(draft, DRAFT_KV, DRAFT_KV)
        size += sliding * min(draft.window, ctx) if sliding else full * ctx
    return size


def compute_bytes(facts: GgufFacts, ctx: int, ubatch: int, k: str, v: str, gpu: bool) -> int:
    """Estimate of what one pass over `ubatch` tokens needs beside weights and cache. Per token, in f32: the widest
    point of a layer (feed-forward or attention, with the residual stream) or the logits, whichever is more; and an f16
    mask over all cells. That is within 1 % of what b11434 logs for targets, except for the logits: it keeps those of a
    few tokens, while its drafter, and older engines, keep them for the whole pass. A drafter's pass begins with the
    target's layers side by side. CUDA's attention kernels copy a quantised layer to f16 (ggml-cuda/fattn-common.cuh).
    """
    layer = 3 * facts.n_ff + 5 * facts.n_embd
    attention = 2 * max(facts.heads, default=0) * max(facts.key_length, facts.key_length_swa) + 4 * facts.n_embd
    widest = max(layer, attention, facts.vocabulary + facts.n_embd) + len(facts.target_layers) * facts.n_embd
    small = sliding_cells(facts, ctx, ubatch) if any(facts.sliding) else 0
    scratch = 0
    for layer_k, layer_v, slides, _ in _widths(facts):
        copied = layer_k * (k[0] != "f" and k != "bf16") + layer_v * (v[0] != "f" and v != "bf16")
        scratch = max(scratch, 2 * copied * (small if slides else _pad(ctx)))
    passing = ubatch * (4 * widest + 2 * (_pad(ctx) + small)) + 4 * OUTPUTS * facts.vocabulary
    return passing + (scratch if gpu else 0)


def _ladder(target: GgufFacts, draft: GgufFacts | None, machine: Machine, wish: Wish) -> list[_Rung]:
    """Each rung needs less than the one before and has no longer context, so more memory never shortens it."""
    ctx = min(wish.ctx, target.context_length or wish.ctx)
    least = min(wish.min_ctx, ctx)
    fine = [p for p in wish.kv if all(KV_TYPES[t][1] >= KV_TYPES[t][0] for t in p)] or list(wish.kv[:1])
    poor = [p for p in wish.kv if p not in fine]
    last, small = fine[-1], UBATCHES[-1]
    steps = sorted({s for n in range(9, 24) for s in (1 << n, 3 << (n - 1)) if least < s < ctx} | {least}, reverse=True)
    rungs = [_Rung(*pair, UBATCHES[0], ctx) for pair in fine]
    rungs += [_Rung(*last, small, c) for c in (ctx, *steps)]
    rungs += [_Rung(*pair, small, least) for pair in poor]
    kept: list[_Rung] = []
    for one in rungs:
        one = replace(one, need=_need(target, draft, machine, wish, one))
        if not kept or one.need < kept[-1].need:
            kept.append(one)
    return kept


def _need(target: GgufFacts, draft: GgufFacts | None, machine: Machine, wish: Wish, rung: _Rung) -> int:
    return sum(c.bytes for c in _device_costs(target, draft, machine, wish.gpu, rung))


def _device_costs(
    target: GgufFacts, draft: GgufFacts | None, machine: Machine, gpu: bool, rung: _Rung
) -> Iterator[Cost]:
    """What lies where the engine computes."""
    where, cards = ("vram", len(machine.gpus)) if gpu else ("ram", 1)
    k, v, ctx, ubatch = rung.k, rung.v, rung.ctx, rung.ubatch
    full, sliding = kv_bytes(target, ctx, ubatch, k, v)
    yield Cost("weights", _weights(target, gpu), where, f"{target.quantisation} {target.n_layer} layers".strip())
    kinds = f"{k}/{v}"
    each = _per_token(target, k, v)[0]
    yield Cost("KV cache", full, where, f"{kinds}, {each / 1024:.1f} KiB per token of context")
    if sliding:
        cells = sliding_cells(target, ctx, ubatch)
        yield Cost("KV cache, sliding", sliding, where, f"{kinds}, {cells} tokens at any context")
    compute = cards * compute_bytes(target, ctx, ubatch, k, v, gpu)
    yield Cost("compute", compute, where, f"estimate for passes of {ubatch} tokens")
    if draft is not None:
        yield Cost("drafter weights", _weights(draft, gpu), where, draft.quantisation)
        size = sum(kv_bytes(draft, ctx, ubatch, DRAFT_KV, DRAFT_KV))
        yield Cost("drafter KV cache", size, where, f"{DRAFT_KV}, its context is the model's")
        compute = cards * compute_bytes(draft, ctx, ubatch, DRAFT_KV, DRAFT_KV, gpu)
        yield Cost("drafter compute", compute, where, f"estimate for passes of {ubatch} tokens")
    if gpu:
        yield Cost("CUDA", cards * CUDA_CONTEXT, where, "the driver's share of a process, estimate")


def _plan(
    target: GgufFacts, draft: GgufFacts | None, machine: Machine, wish: Wish, ladder: list[_Rung], number: int
) -> Plan:
    rung = ladder[number]
    costs = list(_device_costs(target, draft, machine, wish.gpu, rung))
    spare = room(machine, False)
    if wish.gpu:  # the engine leaves the input layer on the host (src/llama-model.cpp)
        costs.append(Cost("token embedding", target.embedding_bytes, "ram"))
        locked = target.embedding_bytes + (draft.embedding_bytes if draft else 0)
    else:
        locked = target.tensor_bytes + (draft.tensor_bytes if draft else 0)
    spare -= sum(c.bytes for c in costs if c.where == "ram")
    each = checkpoint_bytes(target, draft, rung.ctx, rung.k, rung.v)
    checkpoints = min(CHECKPOINTS, max(0, spare) // each) if each else CHECKPOINTS
    spare -= checkpoints * each
    cache_ram = min(CACHE_RAM_MOST, max(0, spare) // 2 // MIB)
    if each:
        costs.append(Cost("checkpoints", checkpoints * each, "ram", f"{checkpoints} of {each / MIB:.0f} MiB"))
    costs.append(Cost("prompt cache", cache_ram * MIB, "ram", "at most; half of what is spare"))
    return Plan(
        ctx=rung.ctx,
        cache_type_k=rung.k,
        cache_type_v=rung.v,
        ubatch=rung.ubatch,
        checkpoints=checkpoints,
        cache_ram=cache_ram,
        gpu=wish.gpu,
        mlock=(machine.memlock is None or machine.memlock >= locked) and spare >= 0,
        threads=wish.threads,
        rung=number,
        costs=tuple(costs),
        notes=tuple(_notes(target, draft, machine, wish, ladder[0], rung, checkpoints)),
        room=room(machine, wish.gpu),
    )


def _notes(
    target: GgufFacts,
    draft: GgufFacts | None,
    machine: Machine,
    wish: Wish,
    first: _Rung,
    rung: _Rung,
    checkpoints: int,
) -> Iterator[str]:
    if first.ctx < wish.ctx:
        yield f"the model was trained for {first.ctx} tokens, so the context is not {wish.ctx}"
    if rung.ctx < first.ctx:
        yield f"the context is {rung.ctx} instead of {first.ctx} tokens to fit"
    if (rung.k, rung.v) != (first.k, first.v):
        yield f"the KV cache is {rung.k}/{rung.v} instead of {first.k}/{first.v} to fit"
    if rung.ubatch < first.ubatch:
        yield f"prompts are read {rung.ubatch} instead of {first.ubatch} tokens at a time to fit, which is slower"
    if checkpoints < CHECKPOINTS:
        yield f"RAM holds {checkpoints} of {CHECKPOINTS} checkpoints: going back in a conversation reads more again"
    if draft is not None and 0 < draft.context_length < rung.ctx:
        yield f"the drafter was trained for {draft.context_length} tokens and may guess worse beyond"
    if wish.gpu and len(machine.gpus) > 1:
        yield f"{len(machine.gpus)} cards count together, as the engine spreads the layers over them"


def _no_way(target: GgufFacts, draft: GgufFacts | None, machine: Machine, wish: Wish, rung: _Rung) -> str:
    kind, cards = ("VRAM", ", ".join(g.name for g in machine.gpus)) if wish.gpu else ("RAM", "this machine")
    free = sum(g.free for g in machine.gpus) if wish.gpu else machine.ram_available
    need, usable = rung.need, room(machine, wish.gpu)
    users = [u for g in machine.gpus for u in g.users if u.bytes is None or u.bytes >= USER_SHOWN] if wish.gpu else []
    remedies = [f"close {u.name} (pid {u.pid}{f', {_gib(u.bytes)}' if u.bytes is not None else ''})" for u in users[:3]]
    if draft is not None:
        saved = need - _need(target, None, machine, wish, rung)
        remedies += ["take a smaller drafter file", f"start with --no-dflash, which saves {_gib(saved)}"]
    remedies.append("take a smaller model file")
    return (
        f"{target.file} does not fit: with {rung.ctx} tokens of context and a {rung.k}/{rung.v} KV cache it needs "
        f"{_gib(need)} of {kind}, and of the {_gib(free)} free on {cards} {_gib(usable)} may be used; "
        + ", or ".join(remedies)
        + "."
    )


def _weights(facts: GgufFacts, gpu: bool) -> int:
    """On a GPU the token embedding stays behind, except as the output layer (src/llama-model.cpp)."""
    return facts.tensor_bytes - (facts.embedding_bytes if gpu and not facts.tied else 0)


def _per_token(facts: GgufFacts, k: str, v: str) -> tuple[int, int]:
    """KV bytes of one token in all full and in all sliding layers."""
    sizes = [0, 0]
    for width_k, width_v, slides, count in _widths(facts):
        sizes[slides] += count * (_bytes(k, width_k) + _bytes(v, width_v))
    return sizes[0], sizes[1]


def _widths(facts: GgufFacts) -> Iterator[tuple[int, int, bool, int]]:
    """(K elements, V elements, slides, how many) of the layers that have a KV cache of their own."""
    own = facts.n_layer - facts.shared_kv_layers
    kinds = Counter(zip(facts.kv_heads[:own], facts.sliding or (False,) * own, strict=False))
    for (heads, slides), count in kinds.items():
        if slides:
            yield heads * facts.key_length_swa, heads * facts.value_length_swa, True, count
        else:
            yield heads * facts.key_length, heads * facts.value_length, False, count


def _bytes(kind: str, elements: int) -> int:
    block, size = KV_TYPES[kind]
    return elements * size // block


def _pad(cells: int) -> int:
    return -(-cells // PAD) * PAD


def _gib(size: int) -> str:
    return f"{size / GIB:.1f} GiB"
