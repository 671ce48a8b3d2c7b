"""The route of edit-and-resend."""

from __future__ import annotations

import base64
import binascii
from typing import Final

import msgspec
from fastapi import APIRouter, Request

from admin.deps import ResenderOfSome, ServicesDep
from admin.models.repair import EditBody
from admin.models.responses.messages import EditedView
from admin.repair.editing import Edit
from admin.requests.audited import AuditedRoute, AuditNotes, NotingDep
from admin.requests.masking import MasksDep
from admin.routes.messages import message_id_of
from admin.showing.archives import missing
from bus.domain.audit import sent
from bus.domain.message import Message
from bus.errors import InvalidMessage
from bus.localized_text import localized

router = APIRouter(prefix="/messages", tags=["messages"], route_class=AuditedRoute)
_JSON: Final = "application/json"


class _RawBody(msgspec.Struct):
    """The exact bytes of the JSON value in ``body``."""

    body: msgspec.Raw = msgspec.Raw()


@router.post("/{message_id}/edit", status_code=202)
async def edit_message(
    message_id: str,
    body: EditBody,
    request: Request,
    services: ServicesDep,
    noting: NotingDep,
    principal: ResenderOfSome,
    masks: MasksDep,
) -> EditedView:
    """Make a new message of an old one, and deliver it to all subscriptions or to those named; durable when answered.

    The old message and its deliveries are untouched; the traces of both name each other. Limits are those of the
    receiver. A paused destination or subscription holds it. Where masking rules hide parts of the old message, only
    those who may see all of it may do this (``?unmasked=true``). Of a strictly ordered destination only with
    ``reorder``.
    """
    old = await services.context.store.message(message_id_of(message_id))
    if old is None:
        raise await services.archives.absent(message_id_of(message_id))
    if not principal.may("resend", old.destination):
        raise missing(message_id)
    masks.require_whole(old.destination)
    services.check_reorder(old.destination, reorder=body.reorder)
    edit = await _edit(body, old, request)
    made = await services.editor.make(old, edit, body.subscriptions, by=principal.name, reason=body.reason)
    _note(noting, body, edit, made)
    return EditedView(id=made.id, edited_from=old.id, subscriptions=list(made.expected))


async def _edit(body: EditBody, old: Message, request: Request) -> Edit:
    content, content_type = None, body.content_type
    if "body" in body.model_fields_set:
        content = bytes(msgspec.json.decode(await request.body(), type=_RawBody).body)
        content_type = content_type or (old.content_type if "json" in old.content_type else _JSON)
    elif body.body_base64 is not None:
        try:
            content = base64.b64decode(body.body_base64, validate=True)
        except (binascii.Error, ValueError) as error:
            raise InvalidMessage(
                localized("body_base64 is not base64: {error}", error=str(error)), field="body_base64"
            ) from error
    return Edit(body=content, content_type=content_type, headers=body.headers, key=body.key, biz_id=body.biz_id)


def _note(noting: AuditNotes, body: EditBody, edit: Edit, made: Message) -> None:
    """Add the new message and the reason to the audit entry, without the body."""
    asked = body.model_dump(exclude_unset=True, exclude={"body", "body_base64"})
    size = {"body": f"edited, {len(edit.body)} bytes"} if edit.body is not None else {}
    noting.changes = sent({**asked, **size, "id": made.id})
