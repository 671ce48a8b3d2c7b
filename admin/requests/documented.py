"""The OpenAPI document: what FastAPI knows of the routes, with who may ask and how each request is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from bus.http.openapi import by_key_or_session, components, refusals

_READING: Final = ("get", "head")
_FASTAPIS_OWN: Final = ("HTTPValidationError", "ValidationError")
_FIRST_REFUSAL: Final = 400
Responses = dict[int | str, dict[str, Any]]
# Of a route that strangers may ask.
FOR_ALL: Final[dict[str, Any]] = {"security": []}


def download(description: str, *media_types: str) -> Responses:
    """Return the response of a route that answers with bytes of these types."""
    return {200: {"description": description, "content": {media_type: {} for media_type in media_types}}}


def document_of(app: FastAPI, hot: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document; ``hot`` are the paths that FastAPI does not serve."""
    document = get_openapi(title=app.title, version=app.version, routes=app.routes)
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            _complete(path, method, operation)
    document["paths"].update(hot)
    schemas = document["components"]["schemas"]
    for name in _FASTAPIS_OWN:
        schemas.pop(name, None)
    shared = components()
    shared["schemas"] |= schemas
    document["components"] |= shared
    return document


def _complete(path: str, method: str, operation: dict[str, Any]) -> None:
    """Add to an operation who may ask, and every status that its routes refuse with.

    A route says itself what is not plain from its form: ``responses=refusals(429)``, ``openapi_extra=FOR_ALL``.
    """
    changes = method not in _READING
    security = operation.setdefault("security", by_key_or_session(changes=changes))
    said = operation["responses"]
    statuses = {int(status) for status in said if int(status) >= _FIRST_REFUSAL}
    statuses |= {401} if security else set()
    statuses |= {404} if "{" in path else set()
    statuses |= {409, 413} if changes else set()
    operation["responses"] = {status: said[status] for status in said if int(status) < _FIRST_REFUSAL}
    operation["responses"] |= refusals(*statuses)
