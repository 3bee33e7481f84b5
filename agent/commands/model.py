"""/model: which profiles there are, what each would cost now, and the change to another one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from agent.commands.base import Answer, Command, Said
from agent.commands.table import listed
from agent.errors import ConfigError
from agent.progress import size, span
from agent.survey import Choice, Offer, Survey

LOST = "The conversation is read once more: its cache is lost."


def model_command(
    survey: Callable[[], Awaitable[Survey]], current: Callable[[], Choice], change: Callable[[str], None]
) -> Command:
    """`change` begins to put another profile in place and raises AgentError where that cannot even begin."""
    names: list[str] = []

    async def run(argument: str) -> Answer:
        found = await survey()
        names[:] = [o.profile for o in found.offers]
        if not argument:
            return listed(listing(found, current()))
        offer = found.offer(argument)
        if offer is None:
            raise ConfigError(f"There is no profile {argument!r}; there are {', '.join(sorted(names))}.")
        if offer.profile == current().profile:
            return Said(f"{offer.profile} runs already.")
        if offer.obstacle:
            raise ConfigError(f"{offer.profile} cannot run here: {offer.obstacle}")
        change(offer.profile)
        return Said(f"Changing to {offer.title}: {cost(offer)}. {LOST}")

    def complete(written: str) -> Sequence[str]:
        return [n for n in names if n.startswith(written)]

    return Command("model", "which model runs, and another one", run, "[PROFILE]", ("profile",), complete=complete)


def listing(found: Survey, current: Choice) -> str:
    width = max((len(o.profile) for o in found.offers), default=0)
    rows = [f"{'▸' if o.profile == current.profile else ' '} {o.profile:<{width}}  {about(o)}" for o in found.offers]
    head = [f"attached to {current.server}"] if current.server else []
    return "\n".join([*head, *rows, f"/model PROFILE changes to it. {LOST}"])


def about(offer: Offer) -> str:
    if offer.obstacle:
        return f"{offer.title}: {offer.obstacle.partition(': ')[0].rstrip('.')}."  # the rest when it is asked for
    return f"{offer.title}, {offer.drafting}, context {offer.ctx:,}: {cost(offer)}"


def cost(offer: Offer) -> str:
    """What has to be done before it answers."""
    if offer.ready:
        return f"loads in {span(offer.load_s)}, as last measured" if offer.load_s else "ready, never loaded here yet"
    engine = next((n.effort for n in offer.needs if n.kind == "engine" and not n.here), "")
    parts = [f"{size(offer.to_fetch)} to fetch"] if offer.to_fetch else []
    return ", ".join([*parts, *([f"an engine to get ({engine})"] if engine else [])]) or "files to fetch"
