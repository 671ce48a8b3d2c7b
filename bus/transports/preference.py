"""The cluster of a transport that a person chose for publishing."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from bus.errors import InvalidMessage
from bus.localized_text import AnyText, localized
from bus.ports.transport import ClusteredTransport, Transport

_log = logging.getLogger(__name__)
_SETTINGS = "name its servers in the configuration: rabbitmq_primary and rabbitmq_backup"


class ClusterPreference:
    """Puts a person's choice in force on the transport that has the cluster, once each time that it changes."""

    def __init__(self, transports: Iterable[Transport]) -> None:
        self._clustered = {one.name: one for one in transports if isinstance(one, ClusteredTransport)}
        self._preferred: str | None = None

    @property
    def clusters(self) -> dict[str, str]:
        """Every cluster, with the name of its transport."""
        return {cluster: name for name, one in self._clustered.items() for cluster in one.clusters}

    @property
    def published_to(self) -> dict[str, str]:
        """The cluster that each transport publishes to now."""
        return {name: one.active for name, one in self._clustered.items()}

    def check(self, cluster: str | None) -> None:
        """Raise ``InvalidMessage`` unless a person may choose this cluster here; None, which is no choice, always."""
        if cluster is None:
            return
        if not self._clustered:
            raise InvalidMessage(
                localized("no transport here has clusters to choose from"), hint=_SETTINGS, field="preferred"
            )
        if cluster not in self.clusters:
            raise InvalidMessage(
                localized(
                    "there is no cluster {cluster} here; there are: {clusters}",
                    cluster=repr(cluster),
                    clusters=", ".join(self.clusters),
                ),
                hint="bus cluster list",
                field="preferred",
            )
        if len(self._clustered[self.clusters[cluster]].clusters) == 1:
            raise InvalidMessage(
                localized(
                    "{cluster} is the only cluster of its transport, so there is nothing to choose", cluster=cluster
                ),
                hint=localized("name another one in the configuration: rabbitmq_backup"),
                field="preferred",
            )

    def prefer(self, cluster: str | None) -> None:
        """Publish to a cluster from now on whenever it is well; None leaves it to the transport again."""
        if cluster == self._preferred:
            return
        self._preferred = cluster
        for name, one in self._clustered.items():
            chosen = cluster if cluster in one.clusters else None
            one.prefer(chosen)
            _log.warning("publishing over %s prefers %s now, as a person says", name, chosen or one.clusters[0])
        if cluster is not None and cluster not in self.clusters:
            _log.warning("cluster %s is chosen, and not in the configuration of this process", cluster)

    def notes(self) -> dict[str, AnyText]:
        """Return a note on each cluster in use that a person has chosen one; empty without such a choice."""
        if self._preferred is None:
            return {}
        transport = self.clusters.get(self._preferred)
        if transport is None:
            return {}
        active = self.published_to[transport]
        if active == self._preferred:
            return {active: localized("published to, as chosen by hand")}
        return {
            active: localized(
                "published to, until {name}, chosen by hand, has been well for a while", name=self._preferred
            )
        }
