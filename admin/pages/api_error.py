"""The error of a page whose API call was refused."""

from __future__ import annotations

from bus.localized_text import AnyText


class ApiError(Exception):
    """The API did not do what a page asked for.

    Attributes
    ----------
    status
        The HTTP status.
    detail, hint
        What happened, and what to do; a ``LocalizedText`` can be said in another language.
    field
        The field of the request that is at fault, empty for none.
    """

    def __init__(self, status: int, detail: AnyText, hint: AnyText = "", field: str = "") -> None:
        super().__init__(str(detail))
        self.status = status
        self.detail = detail
        self.hint = hint
        self.field = field
