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


_DESTINATION: Final[dict[str, Any]] = {
    "name": "destination",
    "in": "path",
    "required": True,
    "schema": {"type": "string"},
}
_UNCHECKED: Final = (
    "Only if true: the idempotency key may have been used before, but the receiver or the store that could say so did "
    "not answer."
)
_OWNER: Final[dict[str, Any]] = {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,128}$"}
PATHS: Final[dict[str, Any]] = {
    "/v1/messages/{destination}": {
        "post": {
            "tags": ["ingest"],
            "summary": "Send one message",
            "description": "The body is the message, whatever its type. Answered once the message is on disk.",
            "operationId": "send_message",
            "security": by_key(),
            "parameters": [
                _DESTINATION,
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
                            "properties": {
                                "id": {"type": "string"},
                                "duplicate": {"type": "boolean"},
                                "unchecked": {"const": True, "description": _UNCHECKED},
                            },
                        }
                    ),
                },
                **refusals(401, 404, 409, 413, 415, 422, 429, 503, 507),
            },
        }
    },
    "/v1/messages": {
        "post": {
            "tags": ["ingest"],
            "summary": "Send a batch, a line of JSON each",
            "description": (
                "At most 1,000 lines and 16 MiB. Answered once every accepted line is on disk. A line is an object "
                "with `destination` and either `body` (JSON) or `body_base64`, and what else is known of `id`, "
                "`biz_id`, `key`, `routing_key`, `source`, `sent_at`, `deliver_at`, `headers`, `content_type`, "
                "`idempotency_key`, `traceparent`, `tracestate`, `original_id`, `replay`, `event` (source and id of a "
                "CloudEvent, taken once) and `producer`, the epoch of the lease (`POST /v1/producers/{destination}`) "
                "under which it is sent to a strictly ordered destination. The `error` of a line has `leader` where "
                "another process sends to its destination. A result has `unchecked` as the answer to a single message."
            ),
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
    "/v1/producers/{destination}": {
        "post": {
            "tags": ["ingest"],
            "summary": "Take the lease of a strictly ordered destination, to send to it alone",
            "description": (
                "`owner` names one life of a producer, which may ask again. Messages with its `epoch` as their "
                "`producer` are the only ones that are accepted until the lease is released. 409 says who has it; the "
                "`leader` of a 503 is the process to ask instead."
            ),
            "operationId": "take_producer_lease",
            "security": by_key(),
            "parameters": [_DESTINATION],
            "requestBody": {
                "required": True,
                **_json({"type": "object", "required": ["owner"], "properties": {"owner": _OWNER}}),
            },
            "responses": {
                "200": {
                    "description": "It is the producer's",
                    **_json(
                        {
                            "type": "object",
                            "required": ["epoch", "owner"],
                            "properties": {"epoch": {"type": "integer"}, "owner": {"type": "string"}},
                        }
                    ),
                },
                **refusals(401, 404, 409, 413, 415, 422),
            },
        }
    },
    "/v1/producers/{destination}/{owner}": {
        "delete": {
            "tags": ["ingest"],
            "summary": "Release the lease of a strictly ordered destination",
            "description": (
                "In the name of a producer of which nothing is left to be sent; what is sent with its epoch after that "
                "is refused for good. Nothing changes when another one has the lease."
            ),
            "operationId": "release_producer_lease",
            "security": by_key(),
            "parameters": [_DESTINATION, {"name": "owner", "in": "path", "required": True, "schema": _OWNER}],
            "responses": {"204": {"description": "It is not the producer's"}, **refusals(401, 404, 422)},
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
