"""The base of request bodies of the admin API."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, Strict

from bus.domain.durations import parse_duration
from bus.domain.message import check_destination
from bus.domain.times import format_time, parse_time
from bus.errors import InvalidDestination
from bus.localized_text import localized

MAX_BODY = 16 * 2**20
MOST_AT_ONCE = 1_000_000


def _code(value: str) -> str:
    try:
        return check_destination(value)
    except InvalidDestination as error:
        raise ValueError(error.said) from error


def _duration(value: str) -> str:
    if parse_duration(value) <= 0:
        raise ValueError(localized("the duration must be above zero"))
    return value


def _overlap(value: str) -> str:
    parse_duration(value)
    return value


def _time(value: str) -> str:
    parse_time(value)
    return value


def _whole(value: Any) -> Any:
    """Take 16.0 for 16, as JSON does."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Code = Annotated[str, AfterValidator(_code)]


Whole = Annotated[int, Strict(), BeforeValidator(_whole)]
Duration = Annotated[str, AfterValidator(_duration)]
Overlap = Annotated[str, AfterValidator(_overlap)]


Time = Annotated[str, AfterValidator(_time)]


Some = Annotated[str, Field(min_length=1, max_length=4096)]


class Body(BaseModel):
    """A body that refuses unknown fields; numbers and flags must be JSON numbers and booleans, not strings."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True, allow_inf_nan=False)


def optional_time(time: int) -> str | None:
    """Return a time for people, null for one that is not known."""
    return format_time(time) if time else None
