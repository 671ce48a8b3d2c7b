"""Responses of the fork's HTTP APIs: with and without the ``Accept`` of version 1, or as plain text."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final

from tests.doubles.youzan.httpd import Answer, Request, json_answer

ACCEPT: Final = "application/vnd.nsq; version=1.0"
_MARK: Final = {"X-NSQ-Content-Type": "nsq; version=1.0"}


class Problem(Exception):
    """A request that is refused."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


Endpoint = Callable[[Request], object]
Style = Callable[[Endpoint], Callable[[Request], Answer]]
Routes = Mapping[tuple[str, str], Callable[[Request], Answer]]


def version_1(endpoint: Endpoint) -> Callable[[Request], Answer]:
    """Answer bare JSON, nothing for None, and errors as ``message``."""

    def answer(request: Request) -> Answer:
        try:
            found = endpoint(request)
        except Problem as problem:
            return json_answer({"message": problem.text}, problem.status, _MARK)
        if found is None or isinstance(found, str):
            return Answer(200, (found or "").encode(), _MARK)
        return json_answer(found, headers=_MARK)

    return answer


def negotiated(endpoint: Endpoint) -> Callable[[Request], Answer]:
    """Answer as version 1 to who accepts it; to others in an envelope, with 500 for every error."""
    bare = version_1(endpoint)

    def answer(request: Request) -> Answer:
        if request.headers.get("accept") == ACCEPT:
            return bare(request)
        try:
            found = endpoint(request)
        except Problem as problem:
            return json_answer({"status_code": 500, "status_txt": problem.text, "data": None}, 500)
        if isinstance(found, str):
            return Answer(200, found.encode())
        return json_answer({"status_code": 200, "status_txt": "OK", "data": found})

    return answer


def plain(endpoint: Endpoint) -> Callable[[Request], Answer]:
    """Answer text."""
    return lambda request: Answer(200, str(endpoint(request)).encode())


def routed(routes: Routes, request: Request) -> Answer:
    """Answer by the route of a request; a known path with another method is a 405."""
    route = routes.get((request.method, request.path))
    if route is not None:
        return route(request)
    known = any(path == request.path for _, path in routes)
    status, text = (405, "METHOD_NOT_ALLOWED") if known else (404, "NOT_FOUND")
    return Answer(status, json.dumps({"message": text}).encode(), _MARK)


def argument(request: Request, name: str, missing: str) -> str:
    """Return a parameter.

    Raises
    ------
    Problem
        It is not given.
    """
    value = request.query.get(name, "")
    if not value:
        raise Problem(400, missing)
    return value
