"""Routes of API keys."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import APIRouter, Response

from admin.deps import Configurer, ServicesDep
from admin.models.access import KeyBody, KeyRateBody
from admin.models.base import optional_time
from admin.models.responses.access import KeyView, NewKeyView
from admin.models.responses.base import Listing
from admin.requests.audited import AuditedRoute, NotingDep
from admin.requests.changing import merged
from bus.errors import NotFound
from bus.localized_text import localized
from bus.security.keyring import StoredKey
from bus.security.keys import split_key

router = APIRouter(prefix="/keys", tags=["keys"], route_class=AuditedRoute)


@router.get("")
async def list_keys(services: ServicesDep, _: Configurer) -> Listing[KeyView]:
    """Return the API keys without their secrets, the oldest first; ``last_used_at`` is to the minute."""
    keyring = services.context.keyring
    uses = await keyring.last_uses()
    return Listing(items=[_view(key, uses.get(key.id, 0)) for key in keyring.all_keys()])


@router.post("", status_code=201)
async def create_key(body: KeyBody, services: ServicesDep, _: Configurer) -> NewKeyView:
    """Make an API key; it is shown once."""
    secret = await services.context.keyring.create_key(
        roles=(body.role,),
        destinations=tuple(body.destinations),
        name=body.name,
        rate=body.rate,
        burst=body.burst,
    )
    made = split_key(secret)
    return NewKeyView(
        id=made[0] if made is not None else None,
        key=secret,
        name=body.name,
        role=body.role,
        destinations=body.destinations,
        rate=body.rate,
        burst=body.burst,
    )


@router.patch("/{key_id}")
async def limit_key(
    key_id: str, changes: dict[str, Any], services: ServicesDep, noting: NotingDep, _: Configurer
) -> KeyView:
    """Change how many messages a key may send a second; at once in this process, within seconds in the others."""
    keyring = services.context.keyring
    known = keyring.key(key_id)
    body = merged(KeyRateBody(rate=known.rate, burst=known.burst), changes)
    changed = await keyring.limit_key(key_id, body.rate, body.burst)
    used_at = (await keyring.last_uses()).get(key_id, 0)
    before, after = _view(known, used_at), _view(changed, used_at)
    noting.compare(msgspec.structs.asdict(before), msgspec.structs.asdict(after))
    return after


@router.delete("/{key_id}", status_code=204)
async def revoke_key(key_id: str, services: ServicesDep, _: Configurer) -> Response:
    """Revoke a key: at once in this process, within seconds in the others."""
    if not await services.context.keyring.delete_key(key_id):
        raise NotFound(localized("there is no key {id}", id=repr(key_id[:64])), hint="bus key list")
    await services.saved.forget("key", key_id)
    return Response(status_code=204)


def _view(key: StoredKey, used_at: int) -> KeyView:
    return KeyView(
        id=key.id,
        name=key.name,
        role=key.roles[0] if key.roles else None,
        roles=list(key.roles),
        destinations=list(key.destinations),
        rate=key.rate,
        burst=key.burst,
        created_at=optional_time(key.created_at),
        last_used_at=optional_time(used_at),
    )
