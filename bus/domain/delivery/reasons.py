"""Reasons for the state of a delivery, or of an item of a resend, given by the bus itself.

A reason is kept as a text among what subscribers and people said. Those of the bus are known again by their words.
"""

from __future__ import annotations

import re
from typing import Final

from bus.domain.delivery.canceling import REMOVED
from bus.domain.delivery.intervention import BY_A_PERSON, SET_ASIDE, Intervention
from bus.domain.subscription import PAUSED_BY_410, PAUSED_BY_PERSON
from bus.localized_text import N_, AnyText, LocalizedText, localized

FILTERED: Final = N_("filter")
PAUSED: Final = N_("paused")
BEHIND: Final = N_("waits for an earlier message of its key")
RESENT: Final = N_("resent by a person")
ON_ITS_WAY: Final = N_("still pending: it is on its way")
ENDED_SINCE: Final = N_("it has ended since")
ACCEPTED_SINCE: Final = N_("it was accepted after the job was made")
OTHER_SINCE: Final = N_("it does not meet the filter any more")
EXPIRED: Final = N_("the message is past its retention")
RESENT_SINCE: Final = N_("resent again since")
NOT_DISCARDED: Final = N_("the job was canceled before this was discarded")
NOT_RESENT: Final = N_("the job was canceled before this was resent")
OUTCOME_UNKNOWN: Final = N_("resent; the job was canceled before the outcome was known, which its trace has")
_SCHEDULED: Final = re.compile(r"deliver at (\d{4}-\d\d-\d\dT[\d:.]+Z)")
NOT_AGAIN: Final = "; not tried again, as the subscription says"
_FINAL: Final = re.compile(rf"(.+){NOT_AGAIN}", re.DOTALL)
_EXHAUSTED: Final = re.compile(r"(.+); retries exhausted after (\d+)", re.DOTALL)

REASONS: Final = frozenset(
    {
        *(PAUSED, N_("scheduled"), N_("the destination is paused")),
        *(FILTERED, REMOVED, PAUSED_BY_410, PAUSED_BY_PERSON, BEHIND, BY_A_PERSON),
        *(ACCEPTED_SINCE, OTHER_SINCE),
        *(RESENT, ON_ITS_WAY, ENDED_SINCE, EXPIRED, RESENT_SINCE, NOT_RESENT, NOT_DISCARDED, OUTCOME_UNKNOWN),
    }
)
"""Those without values."""


def reason_of(text: str, *, by: str = "") -> AnyText:
    """Return a reason as a sentence where it is one of the bus; any other stays as it is.

    Parameters
    ----------
    by
        User who requested the resend that the reason is about.
    """
    if text in REASONS:
        return localized(text)
    if by and text == f"resent by {by}":
        return localized("resent by {name}", name=by)
    return _with_values(text) or text


def _with_values(text: str) -> LocalizedText | None:
    if (intervention := Intervention.parse(text)) is not None:
        return _by_a_person(intervention)
    if found := _EXHAUSTED.fullmatch(text):
        return localized("{reason}; retries exhausted after {count}", reason=found[1], count=int(found[2]))
    if found := _FINAL.fullmatch(text):
        return localized("{reason}; not tried again, as the subscription says", reason=found[1])
    if found := _SCHEDULED.fullmatch(text):
        return localized("deliver at {time}", time=found[1])
    return None


def _by_a_person(intervention: Intervention) -> LocalizedText:
    what, name, why = intervention
    if what == SET_ASIDE:
        if why:
            return localized("set aside by {name}: {reason}", name=name, reason=why)
        return localized("set aside by {name}", name=name)
    if why:
        return localized("discarded by {name}: {reason}", name=name, reason=why)
    return localized("discarded by {name}", name=name)
