"""Changes of a resource: PATCH replaces the fields that are sent; a change that a broker refuses is undone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

from admin.services import AdminServices
from bus.errors import Conflict, TransportRefused
from bus.localized_text import localized

Stored = TypeVar("Stored")


async def put_unless_refused(
    services: AdminServices,
    code: str,
    change: Callable[[], Awaitable[Stored]],
    undo: Callable[[Stored], Awaitable[object]],
) -> Stored:
    """Make a change of a destination or of one of its subscriptions, and wait until every process has it.

    A broker that is unreachable does not fail the change, nor does one that refused before it: the change is then not
    the cause.

    Raises
    ------
    Conflict
        The broker refused what the change needs, such as a queue; the change was undone.
    """
    router = services.context.router
    before = router.trouble(code)
    stored = await change()
    trouble = router.trouble(code)
    if before is None and isinstance(trouble, TransportRefused):
        await undo(stored)
        raise Conflict(localized("{what}; nothing was changed", what=trouble.said), hint=trouble.hint_said)
    await services.settle()
    return stored


_Resource = TypeVar("_Resource", bound=BaseModel)


def merged(current: _Resource, changes: dict[str, Any]) -> _Resource:
    """Return the resource with its changes, validated as a whole; an invalid value is a 422 with its field."""
    try:
        return type(current).model_validate({**current.model_dump(), **changes})
    except ValidationError as error:
        raise RequestValidationError(error.errors()) from error
