"""Request bodies of acknowledgements, silences and tests of channels."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from admin.models.base import Body, Duration

Note = Annotated[str, Field(max_length=500)]
Pattern = Annotated[str, Field(max_length=200)]


class AcknowledgeBody(Body):
    """The note of the person who acknowledges an incident."""

    note: Note = ""


class SilenceBody(Body):
    """A silence: the alarms that send no notifications, and for how long.

    ``*`` stands for any text in all fields but ``for`` and ``note``. ``cause`` is that of an incident. An empty field
    matches everything; at least one of the four is given.
    """

    cause: Pattern = ""
    rule: Pattern = ""
    destination: Pattern = ""
    subscription: Pattern = ""
    duration: Duration = Field(default="1h", alias="for")
    note: Note = ""


class TrialBody(Body):
    """The channel that gets a test notification; empty for all."""

    channel: Annotated[str, Field(max_length=64)] = ""
