"""The changes that a whole configuration would make, computed without applying them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from admin.configuring.order_ending import check_ending
from admin.configuring.subscribing import check, secrets_of, whole
from admin.models.configuration import (
    ConfigurationBody,
    DestinationBody,
    DestinationSetBody,
    PreferenceBody,
    RatesBody,
    SubscriptionBody,
)
from admin.models.responses.configuration import StepView
from bus.bootstrap import Context
from bus.domain.audit import Change, compared
from bus.domain.destination import Destination, check_removable, switched
from bus.domain.ordering.combining import check_batch, check_order
from bus.domain.subscription import Subscription
from bus.errors import BusError, Conflict, InvalidMessage
from bus.localized_text import localized
from bus.registry import MOST_REMOVED, Preference, Rates
from bus.security.keys import Action
from bus.security.principals import Principal

_YIELD_EVERY: Final = 100


@dataclass(frozen=True)
class Step:
    """One resource that differs: the path below ``/api/v1``, its fields, and how many messages its removal drops."""

    method: str
    resource: str
    changes: dict[str, Change]
    is_new: bool = False
    waiting: int = 0


@dataclass
class Plan:
    """All that a set would change; nothing is changed yet."""

    steps: list[Step] = field(default_factory=list)
    destinations: list[Destination] = field(default_factory=list)
    subscriptions: list[Subscription] = field(default_factory=list)
    without: list[str] = field(default_factory=list)
    unsubscribed: list[tuple[str, str]] = field(default_factory=list)
    secrets: dict[str, str] = field(default_factory=dict)
    rates: Rates | None = None
    preference: Preference | None = None


async def plan(context: Context, principal: Principal, wanted: ConfigurationBody, *, prune: bool) -> Plan:
    """Compare a set with what is in force; ``prune`` also removes what it lacks, as far as the principal may.

    Raises
    ------
    AccessDenied
        The set names something that this principal may not configure.
    InvalidMessage, EgressDenied
        Something in the set is invalid by itself; the field says where.
    Conflict
        The version is not the one in force, or something to remove may not be removed.
    """
    revision = context.registry.revision
    if wanted.version is not None and wanted.version != revision:
        raise Conflict(
            localized(
                "the configuration has version {revision}, not {version}; nothing was changed",
                revision=revision,
                version=wanted.version,
            ),
            hint=localized("read it again and repeat the change"),
        )
    found = Plan()
    _check_names(wanted)
    for place, body in enumerate(wanted.destinations):
        principal.require(Action.CONFIGURE, body.code)
        named = {one.name for one in body.subscriptions}
        kept = [one for one in context.registry.catalog.of(body.code) if not prune and one.name not in named]
        await _plan_destination(context, found, body, kept, f"destinations.{place}")
        for number, subscription in enumerate(body.subscriptions):
            if number % _YIELD_EVERY == 0:
                await asyncio.sleep(0)
            _plan_subscription(context, found, body, subscription, f"destinations.{place}.subscriptions.{number}")
    _plan_rest(context, principal, found, wanted)
    if prune:
        await _plan_removals(context, principal, found, wanted)
    return found


def _check_names(wanted: ConfigurationBody) -> None:
    codes = [body.code for body in wanted.destinations]
    _check_each_once(codes, "destinations", "code")
    for place, body in enumerate(wanted.destinations):
        _check_each_once([one.name for one in body.subscriptions], f"destinations.{place}.subscriptions", "name")


def _check_each_once(names: list[str], where: str, name: str) -> None:
    known: set[str] = set()
    for place, found in enumerate(names):
        if not found or found in known:
            twice = localized("{name} is there twice", name=repr(found))
            raise InvalidMessage(
                twice if found else localized("it has no {name}", name=name), field=f"{where}.{place}.{name}"
            )
        known.add(found)


async def _plan_destination(
    context: Context, found: Plan, body: DestinationSetBody, kept: Sequence[Subscription], where: str
) -> None:
    """Plan a destination; ``kept`` are its subscriptions that the set neither names nor removes."""
    known = context.registry.catalog.destinations.get(body.code)
    wanted = body.to_domain(body.code, known.version if known else 0)
    if known is not None and "paused" not in body.model_fields_set:
        wanted = body.model_copy(update={"paused": known.paused}).to_domain(body.code, known.version)
    try:
        check_order(known, wanted, kept)
        context.router.check(wanted)
        await check_ending(context, known, wanted)
    except InvalidMessage as error:
        raise InvalidMessage(error.said, hint=error.hint_said, field=f"{where}.{error.field}") from error
    before = DestinationBody.of(known).model_dump() if known is not None else {}
    changes = compared(before, DestinationBody.of(wanted).model_dump())
    if changes:
        found.steps.append(Step("PUT", f"destinations/{body.code}", changes, is_new=known is None))
        found.destinations.append(switched(known, wanted, context.clock.now()))


def _plan_subscription(
    context: Context, found: Plan, destination: DestinationSetBody, body: SubscriptionBody, where: str
) -> None:
    code, now = destination.code, context.clock.now()
    try:
        check(context.egress, body)
        check_batch(destination.to_domain(code, 0), body.to_domain(code, body.name, secrets=(), known=None, now=now))
    except BusError as error:
        name = getattr(error, "field", "") or "url"
        raise InvalidMessage(error.said, hint=error.hint_said, field=f"{where}.{name}") from error
    known = context.registry.catalog.subscriptions.get((code, body.name))
    secrets, made = secrets_of(body.secret, known)
    if known is not None and "secret" not in body.model_fields_set:
        secrets = known.secrets
    if known is not None and "paused" not in body.model_fields_set:
        body = body.model_copy(update={"paused": known.paused})
    wanted = body.to_domain(code, body.name, secrets=secrets, known=known, now=now)
    changes = compared(whole(known), whole(wanted))
    if changes:
        resource = f"destinations/{code}/subscriptions/{body.name}"
        found.steps.append(Step("PUT", resource, changes, is_new=known is None))
        found.subscriptions.append(wanted)
        if made:
            found.secrets[f"{code}/{body.name}"] = made


def _plan_rest(context: Context, principal: Principal, found: Plan, wanted: ConfigurationBody) -> None:
    if wanted.rates is not None:
        rates = Rates(wanted.rates.receiver, wanted.rates.dispatcher)
        if changes := compared(rates_view(context).model_dump(), wanted.rates.model_dump()):
            principal.require(Action.CONFIGURE, None)
            found.steps.append(Step("PUT", "rates", changes))
            found.rates = rates
    if wanted.clusters is not None:
        context.router.preference.check(wanted.clusters.preferred)
        if changes := compared(clusters_view(context).model_dump(), wanted.clusters.model_dump()):
            principal.require(Action.CONFIGURE, None)
            found.steps.append(Step("PUT", "clusters", changes))
            found.preference = Preference(wanted.clusters.preferred)


async def _plan_removals(context: Context, principal: Principal, found: Plan, wanted: ConfigurationBody) -> None:
    catalog = context.registry.catalog
    named = {body.code: {one.name for one in body.subscriptions} for body in wanted.destinations}
    mine = [code for code in sorted(catalog.destinations) if principal.may(Action.CONFIGURE, code)]
    found.unsubscribed = [
        (code, name) for code in mine for name in sorted(catalog.names(code)) if name not in named.get(code, ())
    ]
    found.without = [code for code in mine if code not in named]
    if len(found.unsubscribed) + len(found.without) > MOST_REMOVED:
        raise Conflict(
            localized("more than {most} would be removed at once; nothing was changed", most=MOST_REMOVED),
            hint=localized("is the set whole? else remove some first: bus destination rm, bus subscription rm"),
        )
    due = await context.store.due(context.clock.now()) if found.unsubscribed else {}
    for key in found.unsubscribed:
        before = whole(catalog.subscriptions[key])
        resource = f"destinations/{key[0]}/subscriptions/{key[1]}"
        waiting = due.get(key, 0) + _on_transports(context, *key)
        found.steps.append(Step("DELETE", resource, compared(before, {}), waiting=waiting))
    for code in found.without:
        check_removable(catalog.destinations[code], ())
        before = DestinationBody.of(catalog.destinations[code]).model_dump()
        found.steps.append(Step("DELETE", f"destinations/{code}", compared(before, {})))


def _on_transports(context: Context, code: str, name: str) -> int:
    """Return how many messages wait in a subscription's queues, here and at other processes, as far as is known."""
    destination = context.registry.destination(code)
    lags = [context.router.lag(destination, name, transport) for transport in destination.transports]
    held = [member.held.get(f"{code}/{name}") for member in context.members.others]
    return sum(lag.records for lag in lags if lag is not None) + sum(one.records for one in held if one is not None)


def rates_view(context: Context) -> RatesBody:
    """Return the store rates in the format of a set."""
    rates = context.registry.rates
    return RatesBody(receiver=rates.receiver, dispatcher=rates.dispatcher)


def clusters_view(context: Context) -> PreferenceBody:
    """Return the preferred cluster in the format of a set."""
    return PreferenceBody(preferred=context.registry.preference.cluster)


def shown(found: Plan) -> list[StepView]:
    """Return the steps of a plan as the API answers them."""
    return [
        StepView(
            change="removed" if step.method == "DELETE" else "made" if step.is_new else "changed",
            resource=step.resource,
            fields=step.changes,
            waiting=step.waiting if step.method == "DELETE" else msgspec.UNSET,
        )
        for step in found.steps
    ]
