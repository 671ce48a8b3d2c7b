"""The audit log, and the history of one resource."""

from __future__ import annotations

from admin.models.responses.base import View
from bus.domain.audit import Change


class WhoView(View, kw_only=True):
    """The kind and the name of a principal, which every reader may see."""

    kind: str
    name: str


class WhoFromView(WhoView, kw_only=True):
    """A principal, and the address of the request."""

    id: str
    address: str


class HistoryView(View, kw_only=True):
    """One change of a resource; ``outcome`` is ``done`` or ``unknown``."""

    id: str
    at: str
    who: WhoView
    method: str
    resource: str
    changes: dict[str, Change]
    outcome: str


class AuditView(View, kw_only=True):
    """One entry of the log; ``outcome`` is ``done``, ``refused``, ``failed`` or ``unknown``."""

    id: str
    at: str
    who: WhoFromView
    method: str
    resource: str
    changes: dict[str, Change]
    status: int | None
    outcome: str
