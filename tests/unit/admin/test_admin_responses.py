"""Responses of routes are structs that the OpenAPI document describes, so that `Any` is rare in admin."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

import admin
from admin.models.responses.base import Listing
from admin.models.responses.messages import TraceView
from admin.models.responses.overview import OverviewView
from bus.domain.delivery.delivery import Status
from tests.unit.admin.admin_world import World, subscribed

LIMIT = 5 / 1000


def schemas_of(document: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of each answer in JSON that is no problem, by operation and status."""
    return {
        f"{method.upper()} {path} {status}": answer["content"]["application/json"].get("schema")
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        for status, answer in operation["responses"].items()
        if "application/json" in answer.get("content", {})
    }


def test_every_answer_has_a_schema_that_is_there() -> None:
    document = World().app.openapi()
    known, found = document["components"]["schemas"], schemas_of(document)
    assert len(found) >= 60
    for operation, schema in found.items():
        name = schema["$ref"].removeprefix("#/components/schemas/")
        assert known[name]["properties"], operation


def test_both_answers_of_a_resend_have_theirs() -> None:
    found = schemas_of(World().app.openapi())
    assert found["POST /api/v1/resends 200"]["$ref"].endswith("/PreviewView")
    assert found["POST /api/v1/resends 202"]["$ref"].endswith("/JobView")


async def test_answers_are_read_as_what_they_were_made_of() -> None:
    world = await subscribed()
    (sent,) = await world.written(1, Status.DEAD)
    async with world.client() as client:
        overview = msgspec.json.decode((await client.get("/overview")).content, type=OverviewView)
        trace = msgspec.json.decode((await client.get(f"/messages/{sent.id}")).content, type=TraceView)
    assert [one.destination for one in overview.destinations] == ["orders"]
    assert [(one.subscription, one.status) for one in trace.deliveries] == [("billing", Status.DEAD)]


def test_a_field_that_is_not_known_is_null_and_one_that_is_unset_is_left_out() -> None:
    assert msgspec.json.encode(Listing[str](items=["a"])) == b'{"items":["a"],"next":null}'


def test_any_is_rare() -> None:
    texts = [path.read_text("utf-8") for path in Path(admin.__file__).parent.rglob("*.py")]
    lines = [line for text in texts for line in text.splitlines()]
    used = [line for line in lines if re.search(r"\bAny\b", line)]
    assert len(used) < LIMIT * len(lines), f"{len(used)} of {len(lines)} lines"
