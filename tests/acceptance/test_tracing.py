"""One trace from a producer's span to what a subscriber is told, as a real collector has it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from opentelemetry import trace as otel
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider

from bus import Bus
from bus.domain.tracing.context import parse_context
from tests.harness.bus_process import BusProcess
from tests.harness.http import PLAIN
from tests.harness.waiting import wait_until
from tests.servers import need
from tests.servers.nsq import NsqdServer, NsqLookupServer
from tests.servers.otel_collector import OtelCollector, Told

CODE = "order.cancelled"
CLIENT, PRODUCER, CONSUMER, INTERNAL = 3, 4, 5, 1


@dataclass
class Hook:
    """A subscriber that answers with these statuses, then 200, and keeps what it was told."""

    statuses: list[int] = field(default_factory=list)
    calls: list[dict[str, str]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    url: str = ""


class Producer(SpanProcessor):
    """Keeps the spans of the application that ended."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self.spans.append(span)


@contextmanager
def hooked(*statuses: int) -> Iterator[Hook]:
    hook = Hook(list(statuses))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            hook.bodies.append(self.rfile.read(int(self.headers["content-length"])))
            hook.calls.append({name.lower(): value for name, value in self.headers.items()})
            self.send_response(hook.statuses.pop(0) if hook.statuses else 200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        hook.url = f"http://127.0.0.1:{server.server_port}/hook"
        yield hook
        server.shutdown()


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OtelCollector]:
    with OtelCollector(need("otel_collector"), tmp_path_factory.mktemp("collector")) as process:
        yield process


@pytest.fixture
def application(monkeypatch: pytest.MonkeyPatch) -> Iterator[Producer]:
    found, provider = Producer(), TracerProvider()
    provider.add_span_processor(found)
    monkeypatch.setattr(otel, "get_tracer_provider", lambda: provider)
    yield found
    provider.shutdown()


def env_of(collector: OtelCollector, **others: str) -> dict[str, str]:
    return {"BUS_OTEL_ENDPOINT": collector.url, **others}


def spans_of(collector: OtelCollector, count: int, wanted: Callable[[Told], bool]) -> list[Told]:
    """Wait for so many spans and return them."""
    return wait_until(
        lambda: found if len(found := [span for span in collector.spans() if wanted(span)]) >= count else [],
        within=30,
        what=f"{count} spans are taken",
        state=lambda: [span.name for span in collector.spans()],
    )


def send_in_a_span(bus: BusProcess, spool: Path) -> str:
    with Bus(bus.url, spool=spool, source="shop") as producer:
        with otel.get_tracer("shop").start_as_current_span("cancel an order"):
            message_id = producer.send(CODE, {"order": 42})
        assert producer.flush(30)
    return message_id


def check_one_trace(application: Producer, hook: Hook, spans: list[Told], message_id: str, *, broker: str) -> None:
    """Each span is below the one that it should be, from the application's own to what the subscriber is told."""
    send, order = application.spans
    assert (send.name, order.name) == (f"send {CODE}", "cancel an order")
    assert send.parent is not None
    assert send.parent.span_id == order.context.span_id
    names = sorted(span.name for span in spans)
    tries = [f"deliver {CODE}/billing"] * 2
    published = [f"publish {CODE}"] if broker else []
    assert names == sorted([f"receive {CODE}", f"compensate {CODE}/billing", *tries, *published])
    by_name = {span.name: span for span in spans}
    receive = by_name[f"receive {CODE}"]
    assert (receive.kind, receive.parent_id) == (CONSUMER, f"{send.context.span_id:016x}")
    assert {span.parent_id for span in spans if span is not receive} == {receive.span_id}
    if broker:
        publish = by_name[f"publish {CODE}"]
        assert (publish.kind, publish.attributes["pier.transport"]) == (PRODUCER, broker)
    attempts = sorted((span for span in spans if span.name == tries[0]), key=lambda span: span.start)
    assert [span.attributes["http.response.status_code"] for span in attempts] == [503, 200]
    assert [span.attributes["pier.outcome"] for span in attempts] == ["retrying", "delivered"]
    assert [span.attributes.get("http.request.resend_count") for span in attempts] == [None, 1]
    assert [span.error for span in attempts] == ["HTTP 503", None]
    assert all(span.kind == CLIENT and span.attributes["url.full"] == hook.url for span in attempts)
    assert by_name[f"compensate {CODE}/billing"].kind == INTERNAL
    told = [parse_context(call["traceparent"]) for call in hook.calls]
    assert [one.span_id for one in told if one] == [span.span_id for span in attempts]
    assert {one.trace_id for one in told if one} == {f"{send.context.trace_id:032x}"}
    assert all(span.attributes["messaging.message.id"] == message_id for span in spans)
    assert all(span.attributes["messaging.system"] == "pier" for span in spans)
    assert all(span.resource["service.name"] == "pier" for span in spans)


def of_trace(application: Producer) -> Callable[[Told], bool]:
    return lambda span: span.trace_id == f"{application.spans[0].context.trace_id:032x}"


def test_a_message_is_one_trace_over_the_direct_transport(
    tmp_path: Path, collector: OtelCollector, application: Producer
) -> None:
    with BusProcess(tmp_path / "data", env=env_of(collector)) as bus, hooked(503) as hook:
        bus.admin.destination(CODE)
        bus.admin.subscription(CODE, "billing", hook.url, retry=["200ms"])
        message_id = send_in_a_span(bus, tmp_path / "spool")
        spans = spans_of(collector, 4, of_trace(application))
    check_one_trace(application, hook, spans, message_id, broker="")


def test_a_message_is_one_trace_over_a_broker(tmp_path: Path, collector: OtelCollector, application: Producer) -> None:
    programs = need("nsq")
    with (
        NsqLookupServer(programs, tmp_path / "lookup") as lookup,
        NsqdServer(programs, tmp_path / "nsqd", lookupds=[lookup.tcp]) as nsqd,
        BusProcess(
            tmp_path / "data", env=env_of(collector, BUS_NSQ_LOOKUPD=lookup.http, BUS_NSQ_NSQD=nsqd.place)
        ) as bus,
        hooked(503) as hook,
    ):
        bus.admin.destination(CODE, transport="nsq")
        bus.admin.subscription(CODE, "billing", hook.url, retry=["200ms"])
        message_id = send_in_a_span(bus, tmp_path / "spool")
        spans = spans_of(collector, 5, of_trace(application))
    check_one_trace(application, hook, spans, message_id, broker="nsq")


def test_a_batch_is_linked_with_each_message(tmp_path: Path, collector: OtelCollector) -> None:
    with BusProcess(tmp_path / "data", env=env_of(collector)) as bus, hooked() as hook:
        bus.admin.destination(CODE)
        bus.admin.subscription(CODE, "billing", hook.url, batch=10, max_concurrency=1, paused=True)
        lines = b"\n".join(b'{"destination":"%s","body":%d}' % (CODE.encode(), number) for number in range(5))
        answer = bus.admin.call("POST", "/v1/messages", content=lines, headers={"content-type": "application/x-ndjson"})
        ids = [result["id"] for result in answer.raise_for_status().json()["results"]]
        bus.admin.pause(CODE, "billing", paused=False)
        own = {one.replace("-", "") for one in ids}
        received = spans_of(collector, 5, lambda span: span.name == f"receive {CODE}" and span.trace_id in own)
        batches = wait_until(lambda: _batches(collector, len(own)), within=30, what="the batches are told")
    assert {span.trace_id for span in received} == own
    assert not any(span.parent_id for span in received)
    places = {(span.trace_id, span.span_id) for span in received}
    assert {link for batch in batches.values() for link in batch.links} == places
    assert len(hook.calls) == len(batches) < len(own)
    for call, body in zip(hook.calls, hook.bodies, strict=True):
        told = parse_context(call["traceparent"])
        assert told is not None
        batch = batches[told.span_id]
        assert (batch.trace_id, batch.parent_id) == (told.trace_id, "")
        assert batch.attributes["pier.batch"] == call["webhook-id"]
        assert batch.attributes["messaging.batch.message_count"] == len(batch.links)
        entries = [parse_context(json.loads(line)["traceparent"]) for line in body.splitlines()]
        assert [(one.trace_id, one.span_id) for one in entries if one] == batch.links


def _batches(collector: OtelCollector, messages: int) -> dict[str, Told]:
    """Return the spans of batches by their ids, once they have so many messages."""
    found = {span.span_id: span for span in collector.spans() if "pier.batch" in span.attributes}
    return found if sum(len(span.links) for span in found.values()) >= messages else {}


def _trouble(bus: BusProcess) -> str:
    checks = httpx.get(f"{bus.url}/readyz", **PLAIN).json()["checks"]
    return next(str(check["detail"]) for check in checks if check["name"] == "spans")


@pytest.mark.parametrize("harm", ["killed", "hung"])
def test_a_collector_that_is_away_holds_nothing_up(tmp_path: Path, harm: str) -> None:
    with (
        OtelCollector(need("otel_collector"), tmp_path / "collector") as own,
        BusProcess(tmp_path / "data", env=env_of(own)) as bus,
        hooked() as hook,
    ):
        bus.admin.destination(CODE)
        bus.admin.subscription(CODE, "billing", hook.url)
        bus.admin.send(CODE, b"{}").raise_for_status()
        spans_of(own, 2, lambda span: span.attributes.get("messaging.destination.name") == CODE)
        own.kill() if harm == "killed" else own.pause()
        for number in range(50):
            bus.admin.send(CODE, b"%d" % number).raise_for_status()
        wait_until(lambda: len(hook.calls) == 51, within=20, what="all are delivered")
        if harm == "killed":  # one that hangs is found out after ten seconds
            wait_until(lambda: _trouble(bus), within=20, what="the trouble is told")
            assert bus.admin.metric("bus_spans_exported_total") >= 2
        began = time.monotonic()
        assert bus.stop() == 0
        assert time.monotonic() - began < 10
        output = bus.child.output()
        assert "100 spans were dropped at the stop; no message was" in output
        if harm == "hung":
            own.resume()
