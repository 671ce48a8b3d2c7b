"""Request bodies of the findings that the pipeline reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import Field, StrictBool, StrictFloat, model_validator

from admin.models.base import Body, Code, Time, Whole
from bus.domain.health.findings import MOST_TOLD, Deviation, Deviations, Metric, Proof, Shortfall
from bus.domain.times import parse_time
from bus.localized_text import localized

Name = Annotated[str, Field(pattern=r"^([A-Za-z0-9_][A-Za-z0-9._-]{0,63})?$")]
Figure = Annotated[StrictFloat, Field(ge=0)]
Count = Annotated[Whole, Field(ge=0, lt=2**53)]


class DeviationBody(Body):
    """A metric that is outside of its norm in an hour, which began at ``since``; null for no limit.

    Without a subscription it is the volume that the destination accepted. Latencies are p95 in milliseconds.
    """

    destination: Code
    subscription: Name = ""
    metric: Metric
    since: Time
    value: Figure
    norm: Figure
    low: Figure | None = None
    high: Figure | None = None

    @model_validator(mode="after")
    def _out(self) -> Self:
        """Refuse a value within its limits, and a metric that a destination does not have."""
        if not self.subscription and self.metric is not Metric.VOLUME:
            raise ValueError(localized("a destination has no {metric}", metric=self.metric))
        is_low = self.metric is Metric.VOLUME and self.low is not None and self.value < self.low
        if not is_low and (self.high is None or self.value <= self.high):
            raise ValueError(localized("it is not outside of its limits"))
        return self

    def to_domain(self) -> Deviation:
        """Return it with times in milliseconds."""
        return Deviation(**{**self.model_dump(), "since": parse_time(self.since)})


class NormsBody(Body):
    """The first of ``count`` metrics outside of their norms up to ``until``; an empty list ends earlier findings."""

    until: Time
    count: Count
    items: list[DeviationBody] = Field(max_length=MOST_TOLD)

    @model_validator(mode="after")
    def _counted(self) -> Self:
        """Refuse a count of fewer than there are, and a metric that is there twice."""
        _check_count("count", self.count, len(self.items))
        _check_unique([(one.destination, one.subscription, one.metric) for one in self.items])
        return self

    def to_domain(self, now: int, by: str) -> Deviations:
        """Return the finding with the time ``now`` (ms) and the name of its reporter."""
        items = tuple(one.to_domain() for one in self.items)
        return Deviations(until=parse_time(self.until), told_at=now, by=by, count=self.count, items=items)


class ShortfallBody(Body):
    """Counts of missing and contradicted deliveries of a subscription; ``since`` and ``until`` are of their ids.

    Without a subscription they are messages that no receiver accepted, or that the store lost.
    """

    destination: Code
    subscription: Name = ""
    missing: Count
    contradicted: Count
    since: Time
    until: Time

    def to_domain(self) -> Shortfall:
        """Return it with times in milliseconds."""
        times = {"since": parse_time(self.since), "until": parse_time(self.until)}
        return Shortfall(**{**self.model_dump(), **times})


class ProofBody(Body):
    """The findings of a proof for the messages of a range, null for all messages: the largest ones.

    Earlier findings in this range are over, unless they had the store as a witness and this proof has not.
    """

    checked: Time
    since: Time | None = None
    before: Time | None = None
    with_store: StrictBool = False
    missing: Count
    contradicted: Count
    items: list[ShortfallBody] = Field(max_length=MOST_TOLD)

    @model_validator(mode="after")
    def _counted(self) -> Self:
        """Refuse counts of fewer than there are, and a subscription that is there twice."""
        _check_count("missing", self.missing, sum(one.missing for one in self.items))
        _check_count("contradicted", self.contradicted, sum(one.contradicted for one in self.items))
        _check_unique([(one.destination, one.subscription) for one in self.items])
        return self

    def to_domain(self, now: int, by: str) -> Proof:
        """Return the finding with the time ``now`` (ms) and the name of its reporter."""
        return Proof(
            checked=parse_time(self.checked),
            since=parse_time(self.since) if self.since is not None else None,
            before=parse_time(self.before) if self.before is not None else None,
            with_store=self.with_store,
            told_at=now,
            by=by,
            missing=self.missing,
            contradicted=self.contradicted,
            items=tuple(one.to_domain() for one in self.items),
        )


def _check_count(field: str, count: int, told: int) -> None:
    if count < told:
        raise ValueError(
            localized("{field} is {count}, and the items have {told}", field=field, count=count, told=told)
        )


def _check_unique(names: Sequence[tuple[str, ...]]) -> None:
    if len(set(names)) < len(names):
        raise ValueError(localized("one of the items is there twice"))
