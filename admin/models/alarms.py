"""Bodies of what people do about alarms."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from admin.models.base import Body, Duration

Note = Annotated[str, Field(max_length=500)]
Pattern = Annotated[str, Field(max_length=200)]


class AcknowledgeBody(Body):
    """What the person says who takes an incident on."""

    note: Note = ""


class SilenceBody(Body):
    """What nobody is told of, and for how long; in all but ``for`` and ``note`` ``*`` is any text.

    ``cause`` is that of an incident. Empty ones are any; one of the four at least is given.
    """

    cause: Pattern = ""
    rule: Pattern = ""
    destination: Pattern = ""
    subscription: Pattern = ""
    duration: Duration = Field(default="1h", alias="for")
    note: Note = ""


class TrialBody(Body):
    """Which channel is tried; empty for all."""

    channel: Annotated[str, Field(max_length=64)] = ""
