"""An alarm, a condition that needs a person: its rule, its severity, and the next step."""

from __future__ import annotations

import enum
from typing import NamedTuple

from bus.localized_text import LocalizedText


class Severity(enum.StrEnum):
    """Severity of an alarm, the worst first."""

    CRITICAL = "critical"  # messages are refused, or nothing flows
    WARNING = "warning"  # something waits or failed, and will not heal by itself or not soon
    INFO = "info"  # as a person wanted it, or on its way

    @property
    def rank(self) -> int:
        """0 for the worst."""
        return list(Severity).index(self)


class Alarm(NamedTuple):
    """One condition that needs a person.

    Attributes
    ----------
    rule
        The name of its rule in `bus.domain.health.rulebook`.
    link
        The path below ``/api/v1`` of the object that it is about.
    since
        When it began, in milliseconds; None when it is not known.
    destination, subscription
        The object of the alarm. An alarm without a destination concerns the whole bus.
    subject
        The object when that is neither: a part, a queue, a process.
    cause
        Alarms of one cause are reported together.
    owner
        Owner of that object.
    """

    rule: str
    severity: Severity
    what: LocalizedText
    next_step: LocalizedText
    link: str
    since: int | None = None
    destination: str | None = None
    subscription: str | None = None
    subject: str = ""
    cause: str = ""
    owner: str = ""

    @property
    def key(self) -> str:
        """Identity of the alarm, the same each time that it is found."""
        return f"{self.rule}:{self.subject or '/'.join(filter(None, (self.destination, self.subscription)))}"
