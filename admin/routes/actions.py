"""Routes of the actions that are allowed now, and why others are not.

Each action is checked as the route that does it checks, by the same functions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec
from fastapi import APIRouter

from admin.deps import Reader, ServicesDep
from admin.models.base import Code
from admin.models.responses.configuration import DestinationActionsView, SubscriptionActionsView, VerdictView
from bus.domain.destination import TransportName, check_removable
from bus.errors import BusError
from bus.localized_text import localized_text_of
from bus.security.keys import Action

router = APIRouter(prefix="/destinations/{code}", tags=["destinations"])
Check = Callable[[], object]


@router.get("/actions")
async def get_destination_actions(code: Code, services: ServicesDep, principal: Reader) -> DestinationActionsView:
    """Return for each action on a destination whether the caller may do it now, and if not, why.

    ``switch`` has each other transport. ``why_text`` and ``hint_text`` have the ``template`` of the English sentence
    and its ``values``, for translations; null where there is none.
    """
    context = services.context
    destination = context.registry.destination(code)
    configure = partial(principal.require, Action.CONFIGURE, code)
    transports = {
        name: partial(context.router.check, msgspec.structs.replace(destination, transport=name))
        for name in TransportName
        if name is not destination.transport
    }
    return DestinationActionsView(
        change=_verdict(configure),
        pause=_verdict(configure),
        add_subscription=_verdict(configure),
        resend=_verdict(partial(principal.require, Action.RESEND, code)),
        remove=_verdict(configure, partial(check_removable, destination, context.registry.catalog.of(code))),
        switch={name: _verdict(configure, check) for name, check in transports.items()},
    )


@router.get("/subscriptions/{name}/actions")
async def get_subscription_actions(
    code: Code, name: str, services: ServicesDep, principal: Reader
) -> SubscriptionActionsView:
    """Return for each action on a subscription whether the caller may do it now, and if not, why.

    ``why_text`` and ``hint_text`` are as those of a destination's actions.
    """
    context = services.context
    subscription = context.registry.subscription(code, name)
    configure, pause = (partial(principal.require, action, code) for action in (Action.CONFIGURE, Action.PAUSE))
    allowed_url = partial(context.egress.check_url, subscription.url)
    return SubscriptionActionsView(
        change=_verdict(pause, configure),
        pause=_verdict(pause, allowed_url),
        resume=_verdict(pause, allowed_url),
        rotate=_verdict(configure),
        resend=_verdict(partial(principal.require, Action.RESEND, code)),
        sample=_verdict(configure, allowed_url, services.introspection.sampler.dispatchers),
        remove=_verdict(configure),
    )


def _verdict(*checks: Check) -> VerdictView:
    """Return the verdict of the first check that refuses."""
    for check in checks:
        try:
            check()
        except BusError as error:
            return VerdictView(
                allowed=False,
                why=str(error.said),
                why_text=localized_text_of(error.said),
                hint=str(error.hint_said),
                hint_text=localized_text_of(error.hint_said),
            )
    return VerdictView(allowed=True, why="", why_text=None, hint="", hint_text=None)
