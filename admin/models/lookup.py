"""Bodies of what people have lookup proxies do."""

from __future__ import annotations

from pydantic import Field, StrictFloat, StrictInt

from admin.models.base import Body

_LONGEST = 64


class MigrationBody(Body):
    """An NSQ topic and the cluster to move it to; ``kind`` defaults to that of the topic.

    ``partitions`` is for an expansion, ``interval`` the seconds within which every client looks up again.
    """

    topic: str = Field(min_length=1, max_length=_LONGEST)
    to: str = Field(min_length=1, max_length=200)
    kind: str | None = None
    partitions: StrictInt | None = None
    interval: StrictInt | StrictFloat | None = None


class AdvanceBody(Body):
    """The step that the caller leaves, so that a concurrent request does not skip one.

    Empty for the current step.
    """

    step: str = ""
