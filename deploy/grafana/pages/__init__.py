"""The dashboards, a module for each: which figures of the bus stand together."""

from __future__ import annotations

from typing import Final

from deploy.grafana.pages.brokers import BROKERS
from deploy.grafana.pages.destination import DESTINATION
from deploy.grafana.pages.lookup import LOOKUP
from deploy.grafana.pages.overview import OVERVIEW
from deploy.grafana.pages.processes import PROCESSES
from deploy.grafana.pages.subscription import SUBSCRIPTION

ALL: Final = (OVERVIEW, DESTINATION, SUBSCRIPTION, PROCESSES, BROKERS, LOOKUP)
