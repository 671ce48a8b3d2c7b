"""The OpenAPI document: FastAPI's description of the routes, plus authentication and the errors of each operation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
from fastapi import FastAPI, Response
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from admin.models.responses.base import View, is_view
from bus.http.openapi import REFERENCES, by_key_or_session, components, refusals

_READING: Final = ("get", "head")
_FASTAPIS_OWN: Final = ("HTTPValidationError", "ValidationError")
_OK: Final = 200
_FIRST_REFUSAL: Final = 400
Responses = dict[int | str, dict[str, Any]]
# For a route that needs no authentication.
FOR_ALL: Final[dict[str, Any]] = {"security": []}


def download(description: str, *media_types: str) -> Responses:
    """Return the response of a route that answers with bytes of these types."""
    return {200: {"description": description, "content": {media_type: {} for media_type in media_types}}}


def written(view: View, headers: Mapping[str, str] | None = None) -> Response:
    """Return an answer that may be long, encoded directly; its route declares its type by ``response_model=``."""
    return Response(msgspec.json.encode(view), media_type="application/json", headers=headers)


def document_of(app: FastAPI, routes: Iterable[tuple[str, APIRoute]], hot: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document; ``routes`` are FastAPI's, by path, ``hot`` documents the paths served outside of it.

    FastAPI cannot describe the structs that routes answer with: msgspec describes these.
    """
    document = get_openapi(title=app.title, version=app.version, routes=app.routes)
    answers = [answer for path, route in routes for answer in _answers(document["paths"][path], route)]
    references, described = msgspec.json.schema_components([view for _, view in answers], ref_template=REFERENCES)
    for (answer, _), reference in zip(answers, references, strict=True):
        answer["content"] = {"application/json": {"schema": reference}}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            _complete(path, method, operation)
    document["paths"].update(hot)
    schemas = document["components"]["schemas"]
    for name in _FASTAPIS_OWN:
        schemas.pop(name, None)
    shared = components()
    shared["schemas"] |= schemas | described
    document["components"] |= shared
    return document


def _answers(operations: dict[str, Any], route: APIRoute) -> Iterator[tuple[dict[str, Any], type]]:
    """Yield each answer of a route that is a struct: its part of the document, and the struct."""
    models = {route.status_code or _OK: route.response_model}
    models |= {int(status): more["model"] for status, more in route.responses.items() if "model" in more}
    for method in route.methods or ():
        responses = operations[method.lower()]["responses"]
        yield from ((responses[str(status)], model) for status, model in models.items() if is_view(model))


def _complete(path: str, method: str, operation: dict[str, Any]) -> None:
    """Add to an operation its authentication, and every status with which it refuses.

    What does not follow from path and method is declared by the route: ``responses=refusals(429)``, ``FOR_ALL``.
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
