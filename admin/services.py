"""The services of the admin, behind its routes and pages; none of them needs a web framework."""

from __future__ import annotations

import logging

from admin.access.saved_views import SavedViews
from admin.access.single_sign_on import single_sign_on
from admin.repair.acts import Act
from admin.repair.choosing import Chooser
from admin.repair.discarding import DiscardAct
from admin.repair.editing import Editor
from admin.repair.held_keys import HeldKeys
from admin.repair.jobs import JobRepository, Kind
from admin.repair.lost_deliveries import LostDeliveries
from admin.repair.resender import Resender
from admin.repair.resending import ResendAct
from admin.repair.runner import JobRunner
from admin.showing.archives import Archives
from admin.showing.causes import Causes
from admin.showing.cures import Cures
from admin.showing.lookup_proxies import LookupProxies
from admin.showing.onsets import Onsets
from admin.showing.strict_orders import StrictOrders
from bus.bootstrap import Context, Introspection
from bus.cluster.alarm_documents import AlarmDocuments
from bus.cluster.configuration import CONFIRMED_WITHIN
from bus.cluster.finding_documents import FindingDocuments
from bus.cluster.pipeline_documents import PipelineDocuments
from bus.domain.destination import Ordering
from bus.domain.ordering.reordering import check_reorder
from bus.observing.cluster_status import ClusterStatus
from bus.observing.configured import rulebook_of
from bus.security.audit_log import AuditLog
from bus.security.clients import networks_of
from bus.security.login import Login
from bus.security.sessions import Limits, Sessions
from bus.stores.cancellations import Cancellations
from bus.stores.rollups import RollupReader

_log = logging.getLogger(__name__)


class AdminServices:
    """The services behind the routes of one process."""

    def __init__(self, context: Context, introspection: Introspection) -> None:
        self.context = context
        self.introspection = introspection
        self.resender = Resender(context.store, context.registry, context.clock, context.due)
        self.rollups = RollupReader(context.store, context.clock)
        self.book = rulebook_of(context.settings)
        self.observatory = ClusterStatus(context, introspection, self.rollups, self.book)
        self.alarms = AlarmDocuments(context.store)
        self.findings = FindingDocuments(context.store)
        self.pipeline = PipelineDocuments(context.store)
        self.strict_orders = StrictOrders(context)
        self.lookup_proxies = LookupProxies(context)
        self.causes = Causes(context, introspection, self.strict_orders)
        self.jobs = JobRepository(context.store)
        self.cures = Cures(self.jobs, context.clock)
        self.onsets = Onsets(self.alarms, context.clock)
        self.audit = AuditLog(context.store, context.clock)
        self.archives = Archives(context.store)
        self.saved = SavedViews(context.store, context.clock)
        settings = context.settings
        limits = Limits(round(settings.session_idle * 1000), round(settings.session_lifetime * 1000))
        self.sessions = Sessions(context.store, context.keyring, context.clock, limits)
        self.proxies = networks_of(settings.trusted_proxies)
        self.login = Login(context.keyring, context.clock)
        self.editor = Editor(context.store, context.registry, context.events, context.clock, context.spans)
        self.cancellations = Cancellations(context.store, context.rollups, context.events)
        lost = LostDeliveries(self.strict_orders.documents, context.registry, context.clock)
        self.chooser = Chooser(context.store, context.registry, lost, context.clock)
        acts: dict[Kind, Act] = {
            Kind.RESEND: ResendAct(self.resender, lost),
            Kind.DISCARD: DiscardAct(context.store, context.registry, self.cancellations, context.clock, self.settle),
        }
        self.runner = JobRunner(context.store, self.chooser, self.resender, lost, acts, self.jobs, context.clock)
        self.held_keys = HeldKeys(context.store, self.runner, context.rollups, context.events, context.clock)
        self.single_sign_on = single_sign_on(settings, context.keyring, context.egress, context.clock)
        self.public_url = settings.public_url.rstrip("/")

    def check_reorder(self, code: str | None, *, reorder: bool) -> None:
        """Raise ``InvalidMessage`` when messages of a destination, or of any, may not be sent again out of order."""
        check_reorder(self.context.registry.catalog.destinations, code, reorder=reorder)

    def keeps_order(self, code: str | None) -> bool:
        """Whether a destination keeps a strict order; False for any."""
        found = self.context.registry.catalog.destinations.get(code or "")
        return found is not None and found.ordering is Ordering.STRICT

    async def settle(self) -> None:
        """Wait a moment until every live process has the current configuration in force."""
        context = self.context
        if not await context.members.confirmed(context.registry.latest, within=CONFIRMED_WITHIN):
            _log.warning("a change of the configuration is stored; not every process has confirmed it yet")
