"""Bodies of resends, discards and edits."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    StrictBool,
    StrictFloat,
    model_validator,
)

from admin.models.base import Body
from admin.models.selection import SelectionBody
from bus.domain.identity import parse_id
from bus.domain.texts import LONGEST_TEXT
from bus.localized_text import localized

OutcomeName = Literal["waiting", "delivered", "discarded", "failed", "skipped", "missing", "canceled"]


class ResendBody(Body):
    """The subscriptions that get one message again; null for all.

    Of a strictly ordered destination only with ``reorder``, as everywhere here: it comes behind all younger messages.
    """

    subscriptions: Annotated[list[str], Field(min_length=1)] | None = None
    reason: str = Field(default="", max_length=1000)
    reorder: StrictBool = False


class EditBody(Body):
    """The fields that an edited message has in place of the original's; fields that are not given are kept.

    ``body`` is JSON and is delivered as the exact bytes of that value; ``body_base64`` is any bytes.
    """

    body: Any = None
    body_base64: str | None = None
    content_type: str | None = None
    headers: Annotated[dict[str, str], Field(max_length=64)] | None = None
    key: str | None = None
    biz_id: str | None = None
    subscriptions: Annotated[list[str], Field(min_length=1)] | None = None
    reason: str = Field(min_length=1, max_length=1000)
    reorder: StrictBool = False

    @model_validator(mode="after")
    def _one_body(self) -> Self:
        """Refuse two bodies."""
        if "body" in self.model_fields_set and self.body_base64 is not None:
            raise ValueError(localized("give body or body_base64, not both"))
        return self


class ResendsBody(Body):
    """A bulk resend: ``rate`` in messages a second."""

    filter: SelectionBody
    rate: StrictFloat | None = Field(default=None, gt=0)
    dry_run: StrictBool = False
    reason: str = Field(default="", max_length=1000)
    reorder: StrictBool = False


class DiscardsBody(Body):
    """A bulk discard; ``filter`` names one subscription, and ``status`` is that of its deliveries."""

    filter: SelectionBody
    dry_run: StrictBool = False
    reason: str = Field(default="", max_length=1000)


class KeyBody(Body):
    """A key that is held up."""

    key: str = Field(max_length=LONGEST_TEXT)


class SkipBody(KeyBody):
    """A key whose first message is parked, and the reason."""

    reason: str = Field(default="", max_length=1000)


class ReleaseBody(Body):
    """The reason to take an order from a process that has ended."""

    reason: str = Field(default="", max_length=1000)


class DecisionBody(Body):
    """The reason of a decision with a cost; a dry run, which only returns the cost, needs none."""

    reason: str = Field(default="", max_length=1000)
    dry_run: StrictBool = False

    @model_validator(mode="after")
    def _reasoned(self) -> Self:
        """Refuse a decision without a reason, unless it is a dry run."""
        if not self.dry_run and not self.reason.strip():
            raise ValueError(localized("it needs a reason"))
        return self


class AbandonBody(DecisionBody):
    """A group of brokers to abandon, and why; ``force`` abandons it even though it may answer."""

    group: str = Field(min_length=1, max_length=LONGEST_TEXT)
    force: StrictBool = False


class ReleaseProducerBody(DecisionBody):
    """The reason to end the exclusive sending of a producer."""


class DeliveryName(Body):
    """One delivery, by its message's id and its subscription."""

    id: Annotated[str, AfterValidator(parse_id)]
    subscription: str = Field(min_length=1, max_length=200)


class DeliveriesBody(Body):
    """Deliveries of one destination that were found unfinished, as by a proof; ``rate`` in messages a second."""

    destination: str
    deliveries: list[DeliveryName] = Field(min_length=1, max_length=1000)
    rate: StrictFloat | None = Field(default=None, gt=0)
    reason: str = Field(default="", max_length=1000)
    reorder: StrictBool = False


class ResendRateBody(Body):
    """Another rate of a job, in messages a second; null for no limit."""

    rate: StrictFloat | None = Field(gt=0)


class RerunBody(Body):
    """The outcomes of the items of a finished job that are resent; by default failed and missing.

    For a discard the default is discarded.
    """

    outcomes: Annotated[list[OutcomeName], Field(min_length=1, max_length=7)] | None = None
    rate: StrictFloat | None = Field(default=None, gt=0)
    reason: str = Field(default="", max_length=1000)
    reorder: StrictBool = False
