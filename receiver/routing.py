"""By which process a message is accepted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple, Protocol

from bus.errors import BusError
from bus.http.draft import Draft
from bus.http.messages import AcceptedMessage
from bus.security.principals import Principal


class Route(NamedTuple):
    """By which process a message is accepted.

    It is the one that keeps the order of ``destination``, or the one that is named ``key_owner``; this process if both
    are empty.
    """

    destination: str = ""
    key_owner: str = ""


HERE: Final = Route()


class OtherReceivers(Protocol):
    """The other processes that accept messages."""

    def is_here(self, destination: str) -> bool:
        """Whether this process accepts a destination's messages itself, but for those with a key."""
        ...

    def route(self, destination: str, scope: str) -> Route:
        """Return by which process a message is accepted; ``scope`` is the name of its key, empty without one."""
        ...

    def is_alone(self) -> bool:
        """Whether there is no other receiver that may accept a key."""
        ...

    async def forward(
        self, route: Route, drafts: Sequence[Draft], principal: Principal
    ) -> Sequence[AcceptedMessage | BusError | None]:
        """Have messages accepted by another process; what was accepted is durable there.

        None for a message that the process that owns its key may have accepted, now or before, or does not take.
        """
        ...


async def split_by_route(
    drafts: Sequence[Draft | BusError],
    routes: Sequence[Route],
    accept: Callable[[Route, Sequence[Draft | BusError]], Awaitable[Sequence[AcceptedMessage | BusError]]],
) -> list[AcceptedMessage | BusError]:
    """Have the drafts of each route accepted by ``accept``, and return the answers in the order of the drafts.

    All at once: a process that stands still makes no other messages wait for one time-out after the other. What a
    call raises is raised when all have ended.
    """
    places: dict[Route, list[int]] = {}
    for place, route in enumerate(routes):
        places.setdefault(route, []).append(place)
    if len(places) == 1:
        return list(await accept(routes[0], drafts))
    calls = [accept(route, [drafts[place] for place in chosen]) for route, chosen in places.items()]
    found = await asyncio.gather(*calls, return_exceptions=True)
    answers: dict[int, AcceptedMessage | BusError] = {}
    for chosen, answered in zip(places.values(), found, strict=True):
        if isinstance(answered, BaseException):
            raise answered
        answers |= zip(chosen, answered, strict=True)
    return [answers[place] for place in range(len(drafts))]
