"""What goes wrong in a route, as problem documents."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from typing import Any, Final, NamedTuple

import msgspec
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from admin.models.configuration import ExponentialBody
from bus.errors import BusError
from bus.http.problem import CONTENT_TYPE, FAILED, REPORT_IT, Problem, failure, headers_of, problem, problem_of
from bus.sentences import N_, Said, Sentence, said_by, sentence, sentence_of

HANDLED = (BusError, RequestValidationError, HTTPException, Exception)
# Pydantic's texts by its error types; of singular and plural the one that Pydantic used is chosen.
_VALUES: Final = {
    "bool_type": (N_("Input should be a valid boolean"),),
    "dict_type": (N_("Input should be a valid dictionary"),),
    "enum": (N_("Input should be {expected}"),),
    "extra_forbidden": (N_("Extra inputs are not permitted"),),
    "finite_number": (N_("Input should be a finite number"),),
    "float_parsing": (N_("Input should be a valid number, unable to parse string as a number"),),
    "float_type": (N_("Input should be a valid number"),),
    "greater_than": (N_("Input should be greater than {gt}"),),
    "greater_than_equal": (N_("Input should be greater than or equal to {ge}"),),
    "int_from_float": (N_("Input should be a valid integer, got a number with a fractional part"),),
    "int_parsing": (N_("Input should be a valid integer, unable to parse string as an integer"),),
    "int_type": (N_("Input should be a valid integer"),),
    "less_than": (N_("Input should be less than {lt}"),),
    "less_than_equal": (N_("Input should be less than or equal to {le}"),),
    "list_type": (N_("Input should be a valid list"),),
    "literal_error": (N_("Input should be {expected}"),),
    "missing": (N_("Field required"),),
    "string_pattern_mismatch": (N_("String should match pattern '{pattern}'"),),
    "string_too_long": (
        N_("String should have at most {max_length} characters"),
        N_("String should have at most {max_length} character"),
    ),
    "string_too_short": (
        N_("String should have at least {min_length} characters"),
        N_("String should have at least {min_length} character"),
    ),
    "string_type": (N_("Input should be a valid string"),),
}


class _Told(NamedTuple):
    """A problem document in English, with its texts for other languages."""

    problem: Problem
    detail: Said
    hint: Said = ""


def problem_for(error: Exception) -> Problem:
    """Return the problem document for an error; for an unexpected one a general text: its traceback is only logged."""
    return _told(error).problem


def _told(error: Exception) -> _Told:
    if isinstance(error, BusError):
        return _Told(problem_of(error), error.said, error.hint_said)
    if isinstance(error, RequestValidationError):
        return _invalid(error)
    if isinstance(error, HTTPException):
        return _http(error)
    return _Told(failure(), FAILED, REPORT_IT)


async def answer(request: Request, error: Exception) -> Response:
    """Answer with the document of an error."""
    told = _told(error)
    found = told.problem
    own: Mapping[str, str] | None = error.headers if isinstance(error, HTTPException) else None
    headers = {name.lower(): value for name, value in (own or {}).items()} | dict(
        headers_of(found.status, found.retry_after)
    )
    if found.status == 405:  # noqa: PLR2004 - Starlette lists the methods of one of the path's routes only
        allowed = request.app.state.methods_at(request.scope["path"])
        headers["allow"] = ", ".join(allowed) or headers["allow"]
    return Response(_content(told), found.status, headers=headers, media_type=CONTENT_TYPE)


def _content(told: _Told) -> bytes:
    """Return the document; a ``Sentence`` in it also has its template and values, to say it in another language."""
    texts = {"detail_text": told.detail, "hint_text": told.hint}
    said = {name: found for name, text in texts.items() if (found := sentence_of(text)) is not None}
    return msgspec.json.encode({**msgspec.to_builtins(told.problem), **said})


def _http(error: HTTPException) -> _Told:
    if error.status_code == 404:  # noqa: PLR2004 - no route has this path
        detail, hint = sentence("there is nothing at this path"), sentence("see /openapi.json")
        return _Told(problem(404, str(detail), hint=str(hint)), detail, hint)
    return _Told(problem(error.status_code, str(error.detail)), str(error.detail))


def _invalid(error: RequestValidationError) -> _Told:
    first = error.errors()[0]
    place = [str(part) for part in takewhile(_is_place, first["loc"])]
    if place[:1] in (["body"], ["query"], ["path"]):
        del place[0]
    status = 400 if first["type"] == "json_invalid" else 422
    field = ".".join(place)
    detail = sentence("{field}: {why}", field=field or sentence("the body"), why=_why(first))
    return _Told(problem(status, str(detail), field=field), detail)


def _why(found: Mapping[str, Any]) -> Said:
    """Return what is wrong with a value; Pydantic writes "Value error, " before what a validator of ours raised."""
    values = found.get("ctx", {})
    if found["type"] == "value_error":
        return said_by(values["error"])
    known = {name: value if isinstance(value, int) else str(value) for name, value in values.items()}
    said = (Sentence(template, known) for template in _VALUES.get(found["type"], ()))
    return next((one for one in said if str(one) == found["msg"]), found["msg"])


def _is_place(part: int | str) -> bool:
    """Whether a part of an error's location is of the request; Pydantic adds a type's name after a field of a union."""
    return isinstance(part, int) or not ("[" in part or part == ExponentialBody.__name__)
