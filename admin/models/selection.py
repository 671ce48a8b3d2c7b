"""The conditions of a search, an export or a bulk resend."""

from __future__ import annotations

from typing import Annotated

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
)

from admin.models.base import Body, Some, Time, optional_time
from bus.domain.delivery.delivery import Status
from bus.domain.searching.conditions import StatusClass, parse_header, parse_path
from bus.domain.searching.selection import Selection
from bus.domain.times import parse_time
from bus.domain.tracing.signature import MOST_CHARACTERS
from bus.localized_text import localized


def _header(value: str) -> str:
    parse_header(value)
    return value


def _path(value: str) -> str:
    parse_path(value)
    return value


class SelectionBody(Body):
    """Which messages a search, an export or a bulk resend takes: those that meet every condition given.

    ``status_class`` and ``error`` are about one delivery: that of ``subscription``, if one is named, or any. Together
    with them, or with ``signature``, ``status`` is that delivery's own; else it is the message's.
    """

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    destination: str | None = None
    subscription: str | None = None
    status: Status | None = None
    biz_id: str | None = None
    source: str | None = None
    since: Time | None = Field(default=None, alias="from", description="the time in the message's id, inclusive")
    before: Time | None = Field(default=None, alias="to", description="the time in the message's id, exclusive")
    q: str | None = Field(default=None, description="inside the id, the biz id or the source")
    signature: Annotated[str, Field(max_length=MOST_CHARACTERS)] | None = None
    ref: Some | None = Field(
        default=None,
        description="an id of any kind, whole: of the message or its trace, here or on a broker, a biz id or a key",
    )
    status_class: StatusClass | None = Field(
        default=None, description="what the last attempt of a delivery got; none: no answer"
    )
    error: Some | None = Field(
        default=None,
        description="inside the reason, or the last attempt's error, of a delivery that is not delivered; in any case",
    )
    header: Annotated[Some, AfterValidator(_header)] | None = Field(
        default=None, description="NAME or NAME: VALUE of the message's own headers; the name in any case"
    )
    body_path: Annotated[Some, AfterValidator(_path)] | None = Field(
        default=None,
        description="a path that the JSON body has, such as order.lines[0].sku; other names stand in double quotes",
    )
    body_value: Annotated[str, Field(max_length=65_536)] | None = Field(
        default=None, description="what stands there: a text itself, or a number, true, false or null as in the body"
    )
    text: Some | None = Field(default=None, description="inside the body, which is read as UTF-8 or JSON")

    @field_validator("body_value")
    @classmethod
    def _has_path(cls, value: str | None, given: ValidationInfo) -> str | None:
        """Refuse a ``body_value`` without a ``body_path``."""
        if value is not None and given.data.get("body_path") is None:
            raise ValueError(localized("it needs body_path, which says where in the body"))
        return value

    def to_domain(self) -> Selection:
        """Return the selection that this describes."""
        return Selection(
            destination=self.destination,
            subscription=self.subscription,
            status=self.status,
            biz_id=self.biz_id,
            source=self.source,
            since=parse_time(self.since) if self.since else None,
            before=parse_time(self.before) if self.before else None,
            text=self.q,
            signature=self.signature,
            ref=self.ref,
            status_class=self.status_class,
            error=self.error,
            header=self.header,
            body_path=self.body_path,
            body_value=self.body_value,
            body_text=self.text,
        )

    @classmethod
    def of(cls, selection: Selection) -> SelectionBody:
        """Return the body of a selection."""
        return cls.model_validate(
            {
                "destination": selection.destination,
                "subscription": selection.subscription,
                "status": selection.status,
                "biz_id": selection.biz_id,
                "source": selection.source,
                "from": optional_time(selection.since or 0),
                "to": optional_time(selection.before or 0),
                "q": selection.text,
                "signature": selection.signature,
                "ref": selection.ref,
                "status_class": selection.status_class,
                "error": selection.error,
                "header": selection.header,
                "body_path": selection.body_path,
                "body_value": selection.body_value,
                "text": selection.body_text,
            }
        )
