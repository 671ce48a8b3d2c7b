"""One process as it tells of itself, to people and to the other processes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

import msgspec

from bus.bootstrap.context import Context
from bus.bootstrap.role_services import RoleServices
from bus.cluster.activity import Activities
from bus.cluster.cluster_backlog import figures
from bus.cluster.member import Member
from bus.cluster.report import Lane, Report, Reports
from bus.cluster.sampling import Sampler
from bus.domain.health.vitals import WorkerFigures
from bus.localized_text import AnyText, localized_text_of

_PUBLISHER: Final = "receiver"
_BREAKERS_TOLD: Final = 100
_HELD_TOLD: Final = 100
_WORKERS_PER_STEP: Final = 500  # figures computed in one iteration of the event loop


class Introspection:
    """Tells what a process has open and what its roles offer.

    Attributes
    ----------
    offers
        Of all roles of this process.
    """

    def __init__(self, context: Context, offers: RoleServices) -> None:
        self._context = context
        self.offers = offers

    def health(self) -> dict[str, Any]:
        """Return a line for each part: its name, whether it is well, and what is wrong."""
        context = self._context
        found, notes = self.own_conditions(), context.router.preference.notes()
        for member in context.members.others:
            where = f"{'+'.join(member.roles)} {member.url}"
            found |= {f"{name} ({where})": trouble for name, trouble in member.told_troubles().items()}
        checks = [
            {"name": name, "ok": not trouble, "detail": str(trouble or notes.get(name, ""))}
            for name, trouble in found.items()
        ]
        return {"status": "degraded" if any(found.values()) else "ok", "node": context.node, "checks": checks}

    def publishers(self) -> dict[str, dict[str, str]]:
        """Return, by receiver's URL, the cluster that its messages go to, by transport."""
        me = self._context.members.me
        own = {me.url: self._context.router.preference.published_to} if "receiver" in me.roles else {}
        return own | {other.url: other.published_to for other in self._context.members.others if other.published_to}

    @property
    def sampler(self) -> Sampler:
        """The way to have a sample sent by a dispatcher."""
        return Sampler(self._context.members, self._context.peers, self.offers.sampling)

    @property
    def activities(self) -> Activities:
        """The way to ask the dispatchers what they do for a subscription."""
        return Activities(self._context.members, self._context.peers, self.offers.activity)

    @property
    def reports(self) -> Reports:
        """The way to ask every process how it is."""
        return Reports(self._context.members, self._context.peers, self.report)

    @property
    def members(self) -> list[Member]:
        """Every live process, this one first, as it is now, with what all of its roles offer."""
        return [self._me, *self._context.members.others]

    @property
    def _me(self) -> Member:
        """Return this process as all of its roles know it: a role's own introspection lacks those after it."""
        members = self._context.members
        return members.describe(members.me)

    def described(self) -> Member:
        """Return what the other processes need to know of this one now."""
        context, breakers, workers = self._context, self.offers.breakers(), self.offers.active_workers()
        troubles = {name: said for name, said in self.own_conditions().items() if said}
        me, waiting = context.members.me, figures(context.spools, self.offers.carried())
        oldest = sorted(breakers, key=lambda lane: breakers[lane].since)[:_BREAKERS_TOLD]
        return msgspec.structs.replace(
            me,
            revision=context.registry.revision,
            unpublished=waiting.unpublished,
            unseen=waiting.unseen,
            held=waiting.held,
            published_to=context.router.preference.published_to if _PUBLISHER in me.roles else {},
            troubles={name: str(said) for name, said in troubles.items()},
            trouble_texts={
                name: text for name, said in troubles.items() if (text := localized_text_of(said)) is not None
            },
            brokers=tuple(self.offers.brokers()),
            store=self.offers.store(),
            disks=tuple(self.offers.disks()),
            spools=waiting.spools,
            breakers={lane: breakers[lane] for lane in oldest},
            open_breakers=len(breakers),
            orphans=len(self.offers.orphans()),
            rejected=tuple(self.offers.rejected()),
            turned_away=tuple(self.offers.turned_away()),
            producers=tuple(one for tell in self.offers.producers for one in tell()),
            certificates=tuple(self.offers.certificates()),
            saturated=tuple(islice(_saturated(workers), _HELD_TOLD)),
            held_by_rate=tuple(islice(_held_by_rate(workers), _HELD_TOLD)),
        )

    async def report(self) -> Report:
        """Return all that this process tells when it is asked."""
        workers = []
        for found in self.offers.workers():
            workers.append(found)
            if len(workers) % _WORKERS_PER_STEP == 0:
                await asyncio.sleep(0)  # thousands would hold up the loop
        return Report(
            member=self._me,
            lanes=[Lane(name, *found) for name, spool in self._context.spools.items() for found in spool.waiting()],
            workers=workers,
            breakers=self.offers.breakers(),
            orphans=self.offers.orphans(),
            swept=list(self.offers.swept),
            producers=self.offers.known_producers(),
        )

    def own_conditions(self) -> dict[str, AnyText]:
        """Return what is wrong with each part of this process, by name; empty text for one that is well."""
        own = {name: condition() for name, condition in self.offers.conditions.items()}
        return own | self._context.chains.conditions() | self._context.router.conditions()


def _saturated(workers: Iterable[WorkerFigures]) -> Iterator[str]:
    """Yield the subscriptions whose permits are the limit, not their rate."""
    for one in workers:
        if (one.lacks_slot or 0 < one.share <= one.in_use) and one.waiting and not one.rate_wait:
            yield f"{one.destination}/{one.subscription}"


def _held_by_rate(workers: Iterable[WorkerFigures]) -> Iterator[str]:
    for one in workers:
        if one.waiting and one.rate_wait:
            yield f"{one.destination}/{one.subscription}"
