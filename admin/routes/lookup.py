"""Routes of topics of NSQ that move between clusters; lookup proxies answer them."""

from __future__ import annotations

from enum import StrEnum
from typing import Final
from urllib.parse import quote

import msgspec
from fastapi import APIRouter

from admin.deps import Pauser, Reader, ServicesDep
from admin.models.lookup import AdvanceBody, MigrationBody
from admin.models.responses.base import Listing
from admin.models.responses.lookup import MigrationView
from admin.requests.audited import AuditedRoute
from bus.http.openapi import refusals

router = APIRouter(prefix="/lookup/migrations", tags=["lookup"], route_class=AuditedRoute)
_ALL: Final = "/migrations"


class MigrationAction(StrEnum):
    """An action on a migration without a request body."""

    PAUSE = "pause"
    RESUME = "resume"
    ROLLBACK = "rollback"


@router.get("", responses=refusals(404))
async def list_migrations(services: ServicesDep, principal: Reader) -> Listing[MigrationView]:
    """Return all migrations of topics, the one that began last first; 404 while no lookup proxy is alive."""
    found = await services.lookup_proxies.ask("GET", _ALL, principal)
    return msgspec.json.decode(found, type=Listing[MigrationView])


@router.get("/{migration_id}")
async def get_migration(migration_id: str, services: ServicesDep, principal: Reader) -> MigrationView:
    """Return one migration: its step, the evidence that it waits for, and the state of both clusters."""
    return _read(await services.lookup_proxies.ask("GET", _one(migration_id), principal))


@router.post("", status_code=201, responses=refusals(404))
async def start_migration(body: MigrationBody, services: ServicesDep, principal: Pauser) -> MigrationView:
    """Begin to move a topic; each step is taken by itself once there is the evidence for it.

    409 for a topic that is in a migration, 422 for an invalid migration, 503 while its cluster does not report it.
    """
    asked = body.model_dump(exclude_none=True)
    return _read(await services.lookup_proxies.ask("POST", _ALL, principal, asked))


@router.post("/{migration_id}/advance")
async def advance_migration(
    migration_id: str, services: ServicesDep, principal: Pauser, body: AdvanceBody | None = None
) -> MigrationView:
    """Take the next step although evidence for it is missing; ``risk`` of a migration has the possible damage.

    409 when it is at another step than ``step`` by now.
    """
    asked = {"step": body.step if body is not None else ""}
    return _read(await services.lookup_proxies.ask("POST", f"{_one(migration_id)}/advance", principal, asked))


@router.post("/{migration_id}/{steering}")
async def steer_migration(
    migration_id: str, steering: MigrationAction, services: ServicesDep, principal: Pauser
) -> MigrationView:
    """Pause a migration, resume it, or return to the route before it; 409 for a migration that has ended."""
    return _read(await services.lookup_proxies.ask("POST", f"{_one(migration_id)}/{steering}", principal))


def _one(migration_id: str) -> str:
    return f"{_ALL}/{quote(migration_id, safe='')}"


def _read(content: bytes) -> MigrationView:
    return msgspec.json.decode(content, type=MigrationView)
