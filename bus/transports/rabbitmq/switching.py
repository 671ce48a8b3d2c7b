"""The cluster to publish to: a rule without I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_MOST_STRIKES: Final = 5


@dataclass
class _State:
    """The state of one cluster.

    Attributes
    ----------
    well_since
        None while it is unreachable.
    failures
        Batches in a row of which nothing was confirmed.
    strikes
        How often in a row publishing went there in vain: left it because of such failures, or sooner than it had
        waited before it went there.
    home_since
        When publishing went back there; None before it was ever left.
    """

    well_since: float | None = None
    failures: int = 0
    strikes: int = 0
    home_since: float | None = None


class Switch:
    """Leaves a failed cluster at once, and returns to the home cluster only when that was healthy for a while.

    Home is the first cluster, or the one that a person prefers. Times are seconds that never go back.

    Parameters
    ----------
    clusters
        Their names, the primary first.
    failures
        Batches in a row of which nothing was confirmed, after which a cluster is left.
    well_for
        Seconds without a failure after which publishing goes home; twice as long after each time that it was in vain.
    """

    def __init__(self, clusters: Sequence[str], *, failures: int, well_for: float) -> None:
        self._states = {name: _State() for name in clusters}
        self._most_failures = failures
        self._well_for = well_for
        self._seen: set[str] = set()
        self._primary = clusters[0]
        self._preferred: str | None = None
        self._active = clusters[0]

    @property
    def active(self) -> str:
        """The cluster that is published to."""
        return self._active

    @property
    def home(self) -> str:
        """The cluster to publish to while all are healthy."""
        return self._preferred or self._primary

    def prefer(self, cluster: str | None, now: float) -> None:
        """Make a cluster home, and switch to it at once if it is healthy; None makes the primary home again."""
        if cluster is not None and cluster not in self._states:
            raise ValueError(f"there is no cluster {cluster!r}; there are: {', '.join(self._states)}")
        self._preferred = cluster
        if cluster is not None:
            self._states[cluster].strikes = 0
            if self._states[cluster].well_since is not None:
                self._active = cluster
        self.order(now)

    def order(self, now: float) -> list[str]:
        """Return the clusters to try, the best first; unreachable ones are left out."""
        if self._active != self.home and self._is_settled(self.home, now):
            self._active = self.home
            state = self._states[self.home]
            state.home_since = now
            if state.strikes:
                state.failures = self._most_failures - 1
        there = [name for name, state in self._states.items() if state.well_since is not None]
        return sorted(there, key=lambda name: name != self._active)

    def came(self, cluster: str, now: float) -> None:
        """Note that a cluster answers; the first time it counts as well for long enough at once."""
        state = self._states[cluster]
        state.well_since = now - (0 if cluster in self._seen else self._well_for)
        state.failures = 0
        self._seen.add(cluster)
        if self._states[self._active].well_since is None:
            self._active = cluster

    def went(self, cluster: str, now: float) -> None:
        """Note that a cluster is unreachable."""
        state = self._states[cluster]
        if cluster == self._active:
            state.strikes = state.strikes + 1 if self._was_in_vain(state, now) else 0
        state.well_since = None
        self._leave(cluster)

    def succeeded(self, cluster: str) -> None:
        """Note that a cluster confirmed something."""
        self._states[cluster].failures = 0

    def failed(self, cluster: str, now: float) -> None:
        """Note that a cluster confirmed nothing of a batch, although it seems to be there."""
        state = self._states[cluster]
        state.failures += 1
        if state.well_since is not None:
            state.well_since = now
        if state.failures >= self._most_failures and self._leave(cluster):
            state.strikes = state.strikes + 1 if self._was_in_vain(state, now) else 1

    def _leave(self, cluster: str) -> bool:
        """Publish to another cluster that is there, if this one is in use; whether that changed anything."""
        if cluster != self._active:
            return False
        others = (name for name, state in self._states.items() if name != cluster and state.well_since is not None)
        self._active = next(others, cluster)
        return self._active != cluster

    def _is_settled(self, cluster: str, now: float) -> bool:
        state = self._states[cluster]
        return state.well_since is not None and now - state.well_since >= self._wait(state)

    def _was_in_vain(self, state: _State, now: float) -> bool:
        """Whether publishing was there for a shorter time than it had waited before it went there."""
        return state.home_since is not None and now - state.home_since < self._wait(state)

    def _wait(self, state: _State) -> float:
        return self._well_for * float(2 ** min(state.strikes, _MOST_STRIKES))
