"""Refusals of an nsqd, and which of them cost the connection."""

from __future__ import annotations


class Refused(Exception):
    """An error frame.

    Parameters
    ----------
    code
        The word that clients match.
    description
        More for people; the space before it is sent also when there is none.
    closes
        Whether the connection is closed behind it.
    """

    def __init__(self, code: str, description: str = "", *, closes: bool) -> None:
        super().__init__(code)
        self.code = code
        self.closes = closes
        self.text = f"{code} {description}"


NOT_LEADER = "E_FAILED_ON_NOT_LEADER"
NOT_WRITABLE = "E_FAILED_ON_NOT_WRITABLE"
NOT_EXIST = "E_TOPIC_NOT_EXIST"


def invalid(description: str) -> Refused:
    """Return the error for commands that make no sense here."""
    return Refused("E_INVALID", description, closes=True)


def bad_body(description: str) -> Refused:
    """Return the error for a body that is no body of this command."""
    return Refused("E_BAD_BODY", description, closes=True)
