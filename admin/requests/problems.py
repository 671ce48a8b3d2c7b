"""Errors of routes as problem documents."""

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
from bus.localized_text import N_, AnyText, LocalizedText, localized, localized_text_of, text_of_error

HANDLED = (BusError, RequestValidationError, HTTPException, Exception)
# What is said of a value by the error type of the library that checks it.
_VALUES: Final = {
    "bool_type": N_("expected true or false"),
    "dict_type": N_("expected an object"),
    "enum": N_("expected {expected}"),
    "extra_forbidden": N_("there is no such field"),
    "finite_number": N_("expected a finite number"),
    "float_parsing": N_("expected a number"),
    "float_type": N_("expected a number"),
    "greater_than": N_("expected more than {gt}"),
    "greater_than_equal": N_("expected {ge} or more"),
    "int_from_float": N_("expected a whole number"),
    "int_parsing": N_("expected a whole number"),
    "int_type": N_("expected a whole number"),
    "less_than": N_("expected less than {lt}"),
    "less_than_equal": N_("expected {le} or less"),
    "list_type": N_("expected a list"),
    "literal_error": N_("expected {expected}"),
    "missing": N_("it is missing"),
    "model_attributes_type": N_("expected an object"),
    "model_type": N_("expected an object"),
    "string_pattern_mismatch": N_("expected a text that matches '{pattern}'"),
    "string_too_long": N_("expected {max_length} characters at most"),
    "string_too_short": N_("expected a text that is not empty"),
    "string_type": N_("expected text"),
    "too_long": N_("expected {max_length} entries at most"),
    "too_short": N_("expected {min_length} entries at least"),
}


class _LocalizedProblem(NamedTuple):
    """A problem document in English, with its texts for other languages."""

    problem: Problem
    detail: AnyText
    hint: AnyText = ""


def problem_for(error: Exception) -> Problem:
    """Return the problem document for an error; for an unexpected one a general text: its traceback is only logged."""
    return _told(error).problem


def _told(error: Exception) -> _LocalizedProblem:
    if isinstance(error, BusError):
        return _LocalizedProblem(problem_of(error), error.said, error.hint_said)
    if isinstance(error, RequestValidationError):
        return _invalid(error)
    if isinstance(error, HTTPException):
        return _http(error)
    return _LocalizedProblem(failure(), FAILED, REPORT_IT)


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


def _content(told: _LocalizedProblem) -> bytes:
    """Return the document; a ``LocalizedText`` in it also has its template and values, for translation."""
    texts = {"detail_text": told.detail, "hint_text": told.hint}
    said = {name: found for name, text in texts.items() if (found := localized_text_of(text)) is not None}
    return msgspec.json.encode({**msgspec.to_builtins(told.problem), **said})


def _http(error: HTTPException) -> _LocalizedProblem:
    if error.status_code == 404:  # noqa: PLR2004 - no route has this path
        detail, hint = localized("there is nothing at this path"), localized("see /openapi.json")
        return _LocalizedProblem(problem(404, str(detail), hint=str(hint)), detail, hint)
    return _LocalizedProblem(problem(error.status_code, str(error.detail)), str(error.detail))


def _invalid(error: RequestValidationError) -> _LocalizedProblem:
    first = error.errors()[0]
    place = [str(part) for part in takewhile(_is_place, first["loc"])]
    if place[:1] in (["body"], ["query"], ["path"]):
        del place[0]
    status = 400 if first["type"] == "json_invalid" else 422
    field = ".".join(place)
    detail = localized("{field}: {why}", field=field or localized("the body"), why=_why(first))
    return _LocalizedProblem(problem(status, str(detail), field=field), detail)


def _why(found: Mapping[str, Any]) -> AnyText:
    """Return the error of a value: the text of a validator of this package, or the expected type."""
    values = found.get("ctx", {})
    if found["type"] == "value_error":
        return text_of_error(values["error"])
    template = _VALUES.get(found["type"])
    if template is None:
        return str(found["msg"])
    return LocalizedText(template, {name: _written(value) for name, value in values.items()})


def _written(value: object) -> str | int:
    """Return a value of a text in the spelling of requests."""
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, int) else str(value)


def _is_place(part: int | str) -> bool:
    """Whether a part of an error's location is of the request; Pydantic adds a type's name after a field of a union."""
    return isinstance(part, int) or not ("[" in part or part == ExponentialBody.__name__)
