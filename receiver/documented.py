"""The hot routes in the OpenAPI document, since FastAPI does not serve them."""

from __future__ import annotations

from typing import Any, Final

from bus.http.openapi import by_key, refusals

_HEADERS: Final = (
    "Bus-Message-Id",
    "Bus-Biz-Id",
    "Bus-Source",
    "Bus-Key",
    "Bus-Routing-Key",
    "Bus-Sent-At",
    "Bus-Deliver-At",
    "Bus-Replay",
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
            "security": by_key(),
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
                **refusals(401, 404, 409, 413, 415, 422, 429, 507),
            },
        }
    },
    "/v1/messages": {
        "post": {
            "tags": ["ingest"],
            "summary": "Send a batch, a line of JSON each",
            "description": "At most 1,000 lines and 16 MiB. Answered once every accepted line is on disk.",
            "operationId": "send_messages",
            "security": by_key(),
            "requestBody": {"content": {"application/x-ndjson": {"schema": {"type": "string", "format": "binary"}}}},
            "responses": {
                "200": {
                    "description": "An answer for each line, in order",
                    **_json({"type": "object", "required": ["results"], "properties": {"results": {"type": "array"}}}),
                },
                **refusals(401, 413, 415, 507),
            },
        }
    },
    "/v1/events": {
        "post": {
            "tags": ["ingest"],
            "summary": "Ship blocks of trace events, a line of JSON each",
            "description": (
                "What the SDK does beside the messages. At most 1 MiB, and 400 KiB a line. Answered once the "
                "receiver's own sink has the blocks; a repeat of a block is recognised by its emitter and seq."
            ),
            "operationId": "ship_events",
            "security": by_key(),
            "requestBody": {"content": {"application/x-ndjson": {"schema": {"type": "string", "format": "binary"}}}},
            "responses": {
                "202": {
                    "description": "Taken",
                    **_json({"type": "object", "required": ["blocks"], "properties": {"blocks": {"type": "integer"}}}),
                },
                **refusals(401, 404, 413, 415, 422, 429),
            },
        }
    },
}
