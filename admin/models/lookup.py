"""Bodies of what people have lookup proxies do."""

from __future__ import annotations

from pydantic import Field, StrictFloat, StrictInt

from admin.models.base import Body

_LONGEST = 64


class MigrationBody(Body):
    """Which topic of NSQ goes to which cluster; ``kind`` as the topic is when it is left out.

    ``partitions`` is for an expansion, ``interval`` the seconds within which every client looks up again.
    """

    topic: str = Field(min_length=1, max_length=_LONGEST)
    to: str = Field(min_length=1, max_length=200)
    kind: str | None = None
    partitions: StrictInt | None = None
    interval: StrictInt | StrictFloat | None = None


class AdvanceBody(Body):
    """The step that is left, so that none is skipped when somebody was faster; empty for whichever it is now."""

    step: str = ""
