"""What can go wrong in a job, beside what ``bus.errors`` has."""

from __future__ import annotations

from bus.errors import BusError


class JobFailed(BusError):
    """A job ended before its work was done; what it committed stays."""
