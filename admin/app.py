"""The admin API as a FastAPI application."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from typing import Any

import msgspec
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException

from admin import destinations, messages, operations, resends, subscriptions
from admin.deps import Office
from admin.models import ExponentialBody
from bus.bootstrap import VERSION
from bus.domain.problem import CONTENT_TYPE, Problem, failure, headers_of, problem, problem_of
from bus.errors import BusError


def make_app(office: Office) -> FastAPI:
    """Return the application of one process."""
    app = FastAPI(title="Pier", version=VERSION, docs_url=None, redoc_url=None)
    app.state.office = office
    api = APIRouter(prefix="/api/v1")
    for module in (destinations, subscriptions, messages, resends, operations):
        api.include_router(module.router)
    app.include_router(api)
    app.add_exception_handler(BusError, _bus_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _failed)
    app.openapi = lambda: _document(app, office)  # type: ignore[method-assign]
    return app


def _answer(answer: Problem, more: Mapping[str, str] | None = None) -> Response:
    headers = {**(more or {}), **headers_of(answer.status)}
    return Response(msgspec.json.encode(answer), answer.status, headers=headers, media_type=CONTENT_TYPE)


async def _bus_error(_: Request, error: Exception) -> Response:
    if not isinstance(error, BusError):
        raise error
    return _answer(problem_of(error))


async def _invalid(_: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        raise error
    first = error.errors()[0]
    place = [str(part) for part in takewhile(_is_place, first["loc"]) if part not in ("body", "query", "path")]
    status = 400 if first["type"] == "json_invalid" else 422
    # Pydantic writes "Value error, " before what a validator of ours raised.
    why = str(first["ctx"]["error"]) if first["type"] == "value_error" else first["msg"]
    return _answer(problem(status, f"{'.'.join(place) or 'the body'}: {why}", field=".".join(place)))


def _is_place(part: int | str) -> bool:
    """Whether a part of an error's location is the sender's; after a field of several forms comes a form's name."""
    return isinstance(part, int) or not ("[" in part or part == ExponentialBody.__name__)


async def _http(_: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    return _answer(problem(error.status_code, str(error.detail)), error.headers)


async def _failed(_: Request, __: Exception) -> Response:
    """Answer what went wrong inside; the error goes on to the server, which logs it."""
    return _answer(failure())


def _document(app: FastAPI, office: Office) -> dict[str, Any]:
    """Return the OpenAPI document, with the hot routes that FastAPI does not serve."""
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, routes=app.routes)
        document["paths"].update(office.context.documented)
        app.openapi_schema = document
    return app.openapi_schema
