"""What goes wrong in a route, as problem documents."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile

import msgspec
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from admin.models.configuration import ExponentialBody
from bus.errors import BusError
from bus.http.problem import CONTENT_TYPE, Problem, failure, headers_of, problem, problem_of
from bus.sentences import Sentence

HANDLED = (BusError, RequestValidationError, HTTPException, Exception)


def problem_for(error: Exception) -> Problem:
    """Return the document that answers an error; of one that is nobody's the server gets the traceback."""
    if isinstance(error, BusError):
        return problem_of(error)
    if isinstance(error, RequestValidationError):
        return _invalid(error)
    if isinstance(error, HTTPException):
        return _http(error)
    return failure()


async def answer(request: Request, error: Exception) -> Response:
    """Answer with the document of an error."""
    found = problem_for(error)
    own: Mapping[str, str] | None = error.headers if isinstance(error, HTTPException) else None
    headers = {name.lower(): value for name, value in (own or {}).items()} | dict(
        headers_of(found.status, found.retry_after)
    )
    if found.status == 405:  # noqa: PLR2004 - Starlette names the methods of one route of the path only
        allowed = request.app.state.methods_at(request.scope["path"])
        headers["allow"] = ", ".join(allowed) or headers["allow"]
    return Response(_content(error, found), found.status, headers=headers, media_type=CONTENT_TYPE)


def _content(error: Exception, found: Problem) -> bytes:
    """Return the document; of sentences it has the templates and values too, to say them in another language."""
    said = {"detail_text": error.said, "hint_text": error.hint_said} if isinstance(error, BusError) else {}
    texts = {name: text for name, text in said.items() if isinstance(text, Sentence)}
    return msgspec.json.encode({**msgspec.to_builtins(found), **texts})


def _http(error: HTTPException) -> Problem:
    if error.status_code == 404:  # noqa: PLR2004 - no route has this path
        return problem(404, "there is nothing at this path", hint="see /openapi.json")
    return problem(error.status_code, str(error.detail))


def _invalid(error: RequestValidationError) -> Problem:
    first = error.errors()[0]
    place = [str(part) for part in takewhile(_is_place, first["loc"])]
    if place[:1] in (["body"], ["query"], ["path"]):
        del place[0]
    status = 400 if first["type"] == "json_invalid" else 422
    # Pydantic writes "Value error, " before what a validator of ours raised.
    why = str(first["ctx"]["error"]) if first["type"] == "value_error" else first["msg"]
    return problem(status, f"{'.'.join(place) or 'the body'}: {why}", field=".".join(place))


def _is_place(part: int | str) -> bool:
    """Whether a part of an error's location is the sender's; after a field of several forms comes a form's name."""
    return isinstance(part, int) or not ("[" in part or part == ExponentialBody.__name__)
