"""Whatever is asked of a documented route, by its schema or against it: no 5xx, and nothing that is not documented.

tests/acceptance/test_api_fuzz.py asks a running bus for longer.
"""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from admin.document import Document
from bus.domain.delivery.delivery import Status
from bus.domain.message import Message
from bus.http.messages import PREFIX
from bus.ports.sampling import SampleResult
from bus.serving import Gateway
from bus.transports.publishing import DestinationPublisher
from receiver.app import IngestApp
from receiver.documented import PATHS
from receiver.duplicates import IdempotencyKeys, RecentIds
from receiver.events_app import PATH as EVENTS_PATH
from receiver.events_app import EventsApp
from receiver.forwarding import OrderForwarder
from receiver.ingest import Ingest
from receiver.key_owners import KeyOwners
from receiver.known_producers import KnownProducers
from receiver.placement import Placement
from receiver.producers_app import PREFIX as PRODUCERS
from receiver.producers_app import ProducersApp
from receiver.publishing import SpoolPublisher
from receiver.quotas import Quotas
from receiver.rejections import Rejections
from receiver.strict_writing import StrictWriting
from receiver.throttled_sources import TurnedAway
from tests.unit.admin.admin_world import URL, World

KNOWN = {
    "code": "orders",
    "migration_id": "orders-1",
    "incident_id": "i1",
    "silence_id": "s1",
    "steering": "pause",
    "name": "billing",
    "destination": "orders",
    "user": "ann",
    "subscription": "billing",
    "attempt": "1",
    "owner": "owner-1",
    "resource": "destinations/orders",
}


class Answering:
    """A dispatcher whose subscribers answer every sample."""

    async def sample(self, message: Message, subscription: str) -> SampleResult:
        return SampleResult(url=URL, status=200, answer=f"{subscription} has {message.id}".encode())


async def _make() -> tuple[Gateway, str, dict[str, str]]:
    world = World()
    world.offer(sampling=Answering())
    async with world.client() as client:
        await client.put("/destinations/orders", json={})
        await client.put("/destinations/orders/subscriptions/billing", json={"url": URL, "secret": "auto"})
        (sent,) = await world.written(1, Status.DEAD)
        job_id = (await client.post("/resends", json={"filter": {}})).json()["id"]
    key = await world.keyring.create_key(roles=("admin",))
    await world.keyring.add_user("ann", "viewer")
    context = world.context
    spool = context.spools["receiver"]
    publishing = DestinationPublisher(context.router, context.events, context.clock)
    publisher = SpoolPublisher(context.registry, publishing, spool, context.store, context.clock)
    recent, keys = RecentIds(context.store, context.clock), IdempotencyKeys(context.store, context.clock)
    quotas, placement = Quotas(TurnedAway(context.clock), context.clock), Placement(spool, context.router)
    ingest = IngestApp(
        Ingest(
            context.registry,
            context.configuration,
            OrderForwarder(context.leaders, context.chains, KeyOwners(context.members), context.peers, context.clock),
            StrictWriting(context.chains),
            placement,
            recent,
            keys,
            None,
            quotas,
            publisher,
            context.events,
            context.clock,
        ),
        world.keyring,
        Rejections(context.clock),
        KnownProducers(context.clock),
    )
    received = {
        PREFIX: ingest,
        PRODUCERS: ProducersApp(context.chains, context.registry, world.keyring),
        EVENTS_PATH: EventsApp(context.events, world.keyring),
    }
    world.offer(documented=PATHS)
    world.offer(routes={**received, "/api": world.app, "/openapi.json": Document(world.services)})
    return Gateway(context, world.introspection), key, KNOWN | {"message_id": sent.id, "job_id": job_id}


GATEWAY, KEY, VALUES = asyncio.run(_make())
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
HEADERS = {"authorization": f"Bearer {KEY}"}
SCHEMA = schemathesis.openapi.from_asgi("/openapi.json", GATEWAY, headers=HEADERS)


@schemathesis.serializer("application/x-ndjson")
def ndjson(_: Any, value: Any) -> bytes:
    """Send what was made for a batch as it is."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")


def _has_json(operation: Any) -> bool:
    return any(alternative.media_type == "application/json" for alternative in operation.body)


OPERATIONS = {operation.ok().label: operation.ok() for operation in SCHEMA.get_all_operations()}
VALID = [(label, GenerationMode.POSITIVE) for label in OPERATIONS]
# Without a body or a query nothing of a request can be against its schema.
INVALID = [(label, GenerationMode.NEGATIVE) for label, found in OPERATIONS.items() if found.query or _has_json(found)]


def test_every_route_is_documented() -> None:
    assert len(OPERATIONS) >= 52
    assert "POST /v1/messages/{destination}" in OPERATIONS
    assert len(INVALID) >= 21


@pytest.mark.parametrize("label", OPERATIONS)
def test_a_route_answers_what_its_schema_allows(label: str) -> None:
    ask(label, GenerationMode.POSITIVE, examples=2)


@pytest.mark.proof
@pytest.mark.parametrize(("label", "mode"), VALID + INVALID)
def test_a_route_answers_whatever_is_sent(label: str, mode: GenerationMode) -> None:
    ask(label, mode, examples=20)


def ask(label: str, mode: GenerationMode, *, examples: int) -> None:
    operation = OPERATIONS[label]

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def check(case: schemathesis.Case) -> None:
        _check(case, case.call(headers=HEADERS))
        # Once more for what is there.
        case.path_parameters = {name: VALUES.get(name, value) for name, value in case.path_parameters.items()}
        _check(case, case.call(headers=HEADERS))

    check()


def _check(case: schemathesis.Case, response: schemathesis.Response) -> None:
    case.validate_response(response, checks=CHECKS)
    assert response.status_code < 500, response.text
    if response.status_code >= 400:
        assert response.headers["content-type"] == ["application/problem+json"], response.text
        document = response.json()
        assert document["status"] == response.status_code
        assert document["title"]


@pytest.mark.parametrize("label", OPERATIONS)
async def test_who_is_not_known_is_refused_where_it_is_declared(label: str) -> None:
    operation = OPERATIONS[label]
    verb = operation.method.upper()
    path = operation.path.format_map(VALUES | {"destination": "orders", "key_id": "none"})
    declared = operation.definition.raw["security"]
    assert declared or path.startswith("/api/v1/session")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(GATEWAY), base_url="http://localhost") as client:
        for headers in ({}, {"authorization": "Bearer wrong"}, {"cookie": "bus_session=wrong"}):
            answer = await client.request(verb, path, headers=headers)
            if declared:
                assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer"), answer.text
            else:
                assert answer.status_code in (200, 404, 422), answer.text
