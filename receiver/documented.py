"""The hot routes in the OpenAPI document, since FastAPI does not serve them."""

from __future__ import annotations

from typing import Any, Final

_PROBLEM: Final = {
    "content": {"application/problem+json": {"schema": {"type": "object", "required": ["title", "status"]}}}
}
_STATUSES: Final = {
    "400": "Malformed",
    "401": "A key is needed",
    "403": "Not allowed",
    "404": "Unknown destination",
    "405": "Not POST",
    "408": "Not received in time",
    "409": "The Idempotency-Key was used for another body",
    "413": "Over the limit",
    "415": "Unsupported content type or encoding",
    "422": "A field has an impossible value",
    "431": "Line and headers over 64 KiB",
    "500": "The bus failed",
    "503": "The disk failed; send again",
    "507": "The spool is full; nothing stored is lost",
}
_ERRORS: Final = {status: {"description": text, **_PROBLEM} for status, text in _STATUSES.items()}
_HEADERS: Final = (
    "Bus-Message-Id",
    "Bus-Biz-Id",
    "Bus-Source",
    "Bus-Key",
    "Bus-Routing-Key",
    "Bus-Sent-At",
    "Bus-Deliver-At",
    "Idempotency-Key",
    "traceparent",
)


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"content": {"application/json": {"schema": schema}}}


PATHS: Final[dict[str, Any]] = {
    "/v1/messages/{destination}": {
        "post": {
            "tags": ["ingest"],
            "summary": "Send one message",
            "description": "The body is the message, whatever its type. Answered once the message is on disk.",
            "operationId": "send_message",
            "parameters": [
                {"name": "destination", "in": "path", "required": True, "schema": {"type": "string"}},
                *({"name": name, "in": "header", "schema": {"type": "string"}} for name in _HEADERS),
            ],
            "requestBody": {"content": {"*/*": {"schema": {"type": "string", "format": "binary"}}}},
            "responses": {
                "202": {
                    "description": "Durable",
                    **_json(
                        {
                            "type": "object",
                            "required": ["id", "duplicate"],
                            "properties": {"id": {"type": "string"}, "duplicate": {"type": "boolean"}},
                        }
                    ),
                },
                **_ERRORS,
            },
        }
    },
    "/v1/messages": {
        "post": {
            "tags": ["ingest"],
            "summary": "Send a batch, a line of JSON each",
            "description": "At most 1,000 lines and 16 MiB. Answered once every accepted line is on disk.",
            "operationId": "send_messages",
            "requestBody": {"content": {"application/x-ndjson": {"schema": {"type": "string"}}}},
            "responses": {
                "200": {
                    "description": "An answer for each line, in order",
                    **_json({"type": "object", "required": ["results"], "properties": {"results": {"type": "array"}}}),
                },
                **_ERRORS,
            },
        }
    },
}
