"""Shares of a subscription's ``max_concurrency`` among the dispatchers of a cluster (docs/processes.md).

All dispatchers that agree on a view hold shares that add up to the maximum. A dispatcher that learns of another view
first shrinks to the smaller of its two shares; it grows only when every member of the new view has shrunk as well. A
subscription of which some member still has more in flight than that is left as it was; the others do not wait for it.
"""

from __future__ import annotations

import itertools
import zlib
from collections import defaultdict
from collections.abc import Iterable
from collections.abc import Set as AbstractSet

import msgspec


class View(msgspec.Struct, frozen=True):
    """The dispatchers among which slots are shared, as one process sees them.

    Attributes
    ----------
    owners
        The dispatchers, in order.
    rotation
        Raised now and then, so that slots that are too few for all dispatchers go to each in turn.
    """

    owners: tuple[str, ...] = ()
    rotation: int = 0

    def share(self, owner: str, name: str, total: int) -> int:
        """Return how many slots of a subscription a dispatcher has; its name decides who gets the remainder first."""
        if owner not in self.owners:
            return 0
        count = len(self.owners)
        place = (self.owners.index(owner) + zlib.crc32(name.encode()) + self.rotation) % count
        return total // count + (place < total % count)


State = tuple[tuple[View, ...], dict[str, tuple[View, ...]]]
"""The views that bound all subscriptions, and by subscription those that bound it as well."""


class Shares:
    """Shares that one dispatcher may use while views change."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self.version = 0
        """Raised with each change."""
        self.bounds: tuple[View, ...] = (View(),)
        """The views whose least share may be used; the last is the one that this dispatcher is changing to."""
        self.kept_back: dict[str, tuple[View, ...]] = {}
        """By subscription, earlier views that still bound it, as some dispatcher has more in flight than its share."""

    @property
    def state(self) -> State:
        """All that the answers of ``of`` depend on."""
        return self.bounds, self.kept_back

    @property
    def view(self) -> View:
        """The view that this dispatcher uses, or is changing to."""
        return self.bounds[-1]

    @property
    def all_bounds(self) -> tuple[View, ...]:
        """Every view that bounds some subscription; the last is ``view``."""
        kept_back = itertools.chain.from_iterable(self.kept_back.values())
        return (*dict.fromkeys(view for view in kept_back if view not in self.bounds), *self.bounds)

    @property
    def is_settled(self) -> bool:
        """Whether the whole share of the view may be used, but for the subscriptions in ``kept_back``."""
        return len(self.bounds) == 1

    @property
    def has_any(self) -> bool:
        """Whether it may have a slot of some subscription: every view that bounds it has it among its members."""
        return all(self._owner in view.owners for view in self.bounds)

    def want(self, view: View) -> None:
        """Change to another view; until ``grant`` only as far as that means fewer slots."""
        # Every view on the way bounds what may be used: another dispatcher may have been granted its share of it.
        if view != self.view:
            self._change((*(bound for bound in self.bounds if bound != view), view), self.kept_back)

    def bind(self, views: Iterable[View]) -> None:
        """Add views that bound it, by which others may use their shares."""
        self._change((*dict.fromkeys(view for view in views if view not in self.bounds), *self.bounds), self.kept_back)

    def resume(self, views: tuple[View, ...]) -> None:
        """Use the views that bounded it before a restart, although their other dispatchers were not asked since."""
        self._change(views, {})

    def grant(self, beyond: AbstractSet[str] = frozenset()) -> None:
        """Use the whole share of the view, to which all its dispatchers have shrunk, but not of these subscriptions."""
        before = self.bounds[:-1]
        kept_back = {name: tuple(dict.fromkeys((*self.kept_back.get(name, ()), *before))) for name in beyond}
        self._change((self.view,), {name: views for name, views in kept_back.items() if views})

    def _change(self, bounds: tuple[View, ...], kept_back: dict[str, tuple[View, ...]]) -> None:
        if (bounds, kept_back) != self.state:
            self.bounds, self.kept_back = bounds, kept_back
            self.version += 1

    def may_differ(self, before: State, total: int) -> bool:
        """Whether a subscription with so many slots may have another share now than in an earlier state.

        Those in ``kept_back``, now or then, are not considered.
        """
        if before[0] == self.bounds:
            return False
        views = {*before[0], *self.bounds}
        if any(total % len(view.owners) for view in views if self._owner in view.owners):
            return True  # whose turn it is decides
        then, now = (min(view.share(self._owner, "", total) for view in bounds) for bounds in (before[0], self.bounds))
        return then != now

    def of(self, name: str, total: int) -> int:
        """Return how many slots of a subscription this dispatcher may use now."""
        bounds = (*self.bounds, *self.kept_back.get(name, ()))
        return min(view.share(self._owner, name, total) for view in bounds)


class ShareChanges:
    """Which subscriptions other shares concern, so that their cost does not grow with all the others."""

    def __init__(self, shares: Shares) -> None:
        self._shares = shares
        self._state, self._version = shares.state, shares.version
        self._by_limit: defaultdict[int, set[str]] = defaultdict(set)

    @property
    def is_current(self) -> bool:
        """Whether the shares are those of the last call of ``concerned``."""
        return self._version == self._shares.version

    def limit(self, name: str, former: int | None, now: int | None) -> None:
        """Note the limit of a subscription, None for one that is not configured."""
        if former is not None:
            self._by_limit[former].discard(name)
        if now is not None:
            self._by_limit[now].add(name)

    def concerned(self) -> set[str]:
        """Return the subscriptions that may have another share than at the last call."""
        if self.is_current:
            return set()
        found = {name for name, _ in self._state[1].items() ^ self._shares.kept_back.items()}
        for limit, names in self._by_limit.items():
            if self._shares.may_differ(self._state, limit):
                found |= names
        self._state, self._version = self._shares.state, self._shares.version
        return found
