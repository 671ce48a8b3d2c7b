"""The OpenAPI document's common parts: authentication and refusals."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from bus.http.problem import CONTENT_TYPE, Problem, headers_of

_MEANINGS: Final = {
    400: "What arrived is not HTTP, or not JSON; nothing of it was stored.",
    401: "No key and no session that is known.",
    403: "Not allowed: the detail says to whom it is. While no key was made, only loopback names are answered.",
    404: "There is no such thing, or whoever asks may not know that there is.",
    408: "The request did not arrive in time.",
    409: "It does not go with what is there now; nothing was changed.",
    413: "Over a limit of size.",
    414: "The target is too long.",
    415: "A content type or encoding that is not taken.",
    422: "A value that cannot be; `field` names it.",
    429: "Too many for now: attempts, or what `field` names has all that it may take. Go on after Retry-After.",
    431: "Request line and headers are too long.",
    500: "The bus failed; what it acknowledged before is not lost.",
    503: "A part of the bus is away for now: the store, the disk, a broker, another process. Try again.",
    507: "The spool is full; nothing that is stored is lost.",
}
REFERENCES: Final = "#/components/schemas/{name}"
_ALWAYS: Final = (400, 403, 408, 414, 431, 500, 503)
_TEXT: Final = {"type": "string"}
_BY_KEY: Final[dict[str, list[str]]] = {"key": []}


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the responses of these statuses, and of those that every operation may answer."""
    wanted = sorted({*_ALWAYS, *statuses})
    return {str(status): {"$ref": f"#/components/responses/{_name(status)}"} for status in wanted}


def by_key() -> list[dict[str, list[str]]]:
    """Return the security of an operation for programs only."""
    return [_BY_KEY]


def by_key_or_session(*, changes: bool) -> list[dict[str, list[str]]]:
    """Return the security of an operation that people may ask for too."""
    session: dict[str, list[str]] = {"session": [], "csrf": []} if changes else {"session": []}
    return [_BY_KEY, session]


def components() -> dict[str, dict[str, Any]]:
    """Return what the operations refer to."""
    _, schemas = msgspec.json.schema_components([Problem], ref_template=REFERENCES)
    return {
        "schemas": schemas,
        "responses": {_name(status): _response(status, text) for status, text in _MEANINGS.items()},
        "securitySchemes": {
            "key": {"type": "http", "scheme": "bearer", "description": "An API key."},
            "session": {
                "type": "apiKey",
                "in": "cookie",
                "name": "bus_session",
                "description": "What `POST /api/v1/session` gave a browser; over TLS it is `__Host-bus_session`.",
            },
            "csrf": {
                "type": "apiKey",
                "in": "header",
                "name": "X-CSRF-Token",
                "description": "`csrf` of `GET /api/v1/session`: with a session, each change shows it.",
            },
        },
    }


def _name(status: int) -> str:
    return f"Problem{status}"


def _response(status: int, text: str) -> dict[str, Any]:
    headers = {name: {"required": True, "schema": _TEXT} for name in headers_of(status)}
    content = {CONTENT_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {"description": text, "content": content, **({"headers": headers} if headers else {})}
