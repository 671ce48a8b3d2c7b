"""Routes of the configuration as a whole."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

import msgspec
from fastapi import APIRouter, Query, Request

from admin.configuring.exporting import exported
from admin.configuring.planning import Plan, plan, shown
from admin.deps import ConfigurerOfSome, ServicesDep
from admin.models.configuration import ConfigurationBody
from admin.models.responses.configuration import ConfigurationPutView, ConfigurationView
from admin.requests.audited import AuditedRoute, NotingDep, add_entry
from admin.services import AdminServices
from bus.domain.audit import Change
from bus.errors import Conflict, StoreError, TransportRefused
from bus.localized_text import localized
from bus.security.principals import Principal

router = APIRouter(prefix="/configuration", tags=["configuration"], route_class=AuditedRoute)
_ENTRIES_AT_ONCE: Final = 100
_OK: Final = 200


@router.get("")
async def get_configuration(services: ServicesDep, principal: ConfigurerOfSome) -> ConfigurationView:
    """Return all that may be configured as one set, by name, without defaults and secrets; it can be put again."""
    return exported(services.context, principal)


@router.put("")
async def put_configuration(
    body: ConfigurationBody,
    request: Request,
    services: ServicesDep,
    noting: NotingDep,
    principal: ConfigurerOfSome,
    dry_run: Annotated[bool, Query()] = False,
    prune: Annotated[bool, Query()] = False,
) -> ConfigurationPutView:
    """Put a whole set, and return what differed; the same set put again changes nothing.

    Everything is checked before anything is changed. Secrets and pauses that the set does not name stay. What the set
    does not name at all stays as well, unless ``prune``: then it is removed, and its open deliveries are canceled;
    ``waiting`` says how many. A store that fails in the middle leaves a part done, which the answer says.
    """
    found = await plan(services.context, principal, body, prune=prune)
    noting.changes = {step.resource: Change(None, step.method) for step in found.steps[:_ENTRIES_AT_ONCE]}
    if not dry_run and found.steps:
        await _apply(services, found)
        await _note(request, principal, found)
    registry = services.context.registry
    return ConfigurationPutView(
        version=registry.revision,
        dry_run=dry_run,
        changes=shown(found),
        secrets=found.secrets if found.secrets and not dry_run else msgspec.UNSET,
    )


async def _apply(services: AdminServices, found: Plan) -> None:
    context, registry = services.context, services.context.registry
    try:
        await _put(services, found)
        if found.rates is not None:
            await registry.set_rates(found.rates)
        if found.preference is not None:
            await registry.set_preference(found.preference)
        if found.unsubscribed or found.without:
            await registry.remove_all(found.without, found.unsubscribed)
        await services.settle()
        now = context.clock.now()
        for code, name in found.unsubscribed:
            await services.cancellations.cancel(code, name, now)
        for code in found.without:
            # Else scheduled messages would go to the subscriptions of a later destination with the same code.
            await context.store.cancel(code, "", now)
    except StoreError as error:
        error.hint = "a part may be done: put the same set again, which goes on with what is missing"
        raise


async def _put(services: AdminServices, found: Plan) -> None:
    """Put the new and changed resources; undo all and raise ``Conflict`` when a broker refuses a queue."""
    registry, router = services.context.registry, services.context.router
    before = registry.catalog
    codes = sorted({one.code for one in found.destinations} | {one.destination for one in found.subscriptions})
    troubled = {code for code in codes if router.trouble(code) is not None}
    destinations, subscriptions = await registry.put_all(found.destinations, found.subscriptions)
    refusals = [router.trouble(code) for code in codes if code not in troubled]
    refusal = next((one for one in refusals if isinstance(one, TransportRefused)), None)
    if refusal is None:
        return
    known, subscribed = before.destinations, before.subscriptions
    replace = msgspec.structs.replace
    await registry.put_all(
        [replace(known[one.code], version=one.version) for one in destinations if one.code in known],
        [replace(subscribed[one.key], version=one.version) for one in subscriptions if one.key in subscribed],
    )
    await registry.remove_all(
        [one.code for one in destinations if one.code not in known],
        [one.key for one in subscriptions if one.key not in subscribed],
    )
    raise Conflict(localized("{what}; nothing was changed", what=refusal.said), hint=refusal.hint_said)


async def _note(request: Request, principal: Principal, found: Plan) -> None:
    """Add an entry to the audit log for each resource, as if it had been changed alone."""
    for start in range(0, len(found.steps), _ENTRIES_AT_ONCE):
        await asyncio.gather(
            *(
                add_entry(
                    request,
                    principal,
                    changes=step.changes,
                    status=_OK,
                    method=step.method,
                    resource=step.resource,
                )
                for step in found.steps[start : start + _ENTRIES_AT_ONCE]
            )
        )
