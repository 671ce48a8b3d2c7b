"""PATCH: the fields that are sent replace those that are there."""

from __future__ import annotations

from typing import Any, TypeVar

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

_Resource = TypeVar("_Resource", bound=BaseModel)


def merged(current: _Resource, changes: dict[str, Any]) -> _Resource:
    """Return the resource with its changes, validated as a whole; an impossible value is a 422 with its field."""
    try:
        return type(current).model_validate({**current.model_dump(), **changes})
    except ValidationError as error:
        raise RequestValidationError(error.errors()) from error
