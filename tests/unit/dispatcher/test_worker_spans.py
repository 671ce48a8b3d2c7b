"""A span for each POST, of which the subscriber is told; nothing changes where it is not recorded."""

from __future__ import annotations

import json
from typing import Any

from bus.domain.message import encode_message
from bus.domain.subscription import Subscription
from bus.domain.tracing.context import Sampler, TraceContext, parse_context, span_of
from bus.domain.tracing.spans import Span, SpanKind
from bus.ports.poster import PostFailure
from bus.ports.transport import OutgoingMessage
from bus.spans.recorder import SpanRecorder
from bus.testing.poster import Reply
from tests.unit.dispatcher.dispatcher_world import URL, World, fresh, handed, held, subscription

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED, UNSAMPLED = f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-00"


async def posted(world: World, of: Subscription, ratio: float, *sends: dict[str, Any], count: int = 0) -> list[Span]:
    """Have messages posted by a worker that records, and return its spans."""
    recorder = SpanRecorder(Sampler(ratio), world.clock)
    async with world.worker(of, spans=recorder):
        for changes in sends:
            await world.publish(**changes)
        await world.clock.until(lambda: len(world.poster.posted) >= (count or len(sends)))
        await world.clock.settle()
    return recorder.take(100)


async def test_a_subscriber_is_below_the_attempt_and_the_attempt_below_the_reception() -> None:
    world = World()
    (span,) = await posted(world, subscription(), 0.0, {"traceparent": SAMPLED, "tracestate": "a=b"})
    (post,) = world.poster.posted
    assert parse_context(post.headers["traceparent"]) == TraceContext(TRACE, span.span_id, 1)
    assert post.headers["tracestate"] == "a=b"
    assert (span.trace_id, span.parent_id, span.state) == (TRACE, span_of(post.headers["webhook-id"]), "a=b")
    assert (span.shape.name, span.shape.kind) == ("deliver orders/billing", SpanKind.CLIENT)
    found = dict((*span.shape.attributes, *span.own))
    assert found["http.response.status_code"] == 200
    assert found["url.full"] == URL
    assert (found["pier.attempt"], found["pier.outcome"], found["pier.origin"]) == (1, "delivered", "road")
    assert "http.request.resend_count" not in found
    assert span.error == ""


async def test_what_is_not_sampled_goes_as_it_came() -> None:
    world = World()
    sends = ({"traceparent": UNSAMPLED, "tracestate": "a=b"}, {"traceparent": "00-1-2-01"}, {})
    assert await posted(world, subscription(), 0.0, *sends) == []
    headers = [post.headers for post in world.poster.posted]
    assert [one.get("traceparent") for one in headers] == [UNSAMPLED, "00-1-2-01", None]
    assert [one.get("tracestate") for one in headers] == ["a=b", None, None]


async def test_a_message_without_a_trace_has_one_of_its_own() -> None:
    world = World()
    sends = ({"traceparent": "00-1-2-01", "tracestate": "a=b"}, {})
    for span, post in zip(await posted(world, subscription(), 1.0, *sends), world.poster.posted, strict=True):
        assert span.trace_id == post.headers["webhook-id"].replace("-", "")
        assert parse_context(post.headers["traceparent"]) == TraceContext(span.trace_id, span.span_id, 1)
        assert "tracestate" not in post.headers


async def test_a_failure_and_its_repetition_are_two_spans_of_one_trace() -> None:
    world = World()
    world.poster.script(URL, Reply(503), Reply(failure=PostFailure.REFUSED), Reply())
    recorder = SpanRecorder(Sampler(0.0), world.clock)
    async with world.worker(spans=recorder) as worker:
        (sent,) = await world.publish(traceparent=SAMPLED)
        await world.clock.until(lambda: len(recorder) == 1)
        for attempts in (1, 2):
            await world.clock.until(lambda: not worker.in_flight)
            await world.clock.until(lambda n=attempts: worker.offer(handed(sent, attempts=n, tries=n)))
            await world.clock.until(lambda n=attempts: len(recorder) == n + 1)
    spans = recorder.take(9)
    assert {span.trace_id for span in spans} == {TRACE}
    assert {span.parent_id for span in spans} == {span_of(sent.id)}
    assert len({span.span_id for span in spans}) == 3
    told = [dict(span.own) for span in spans]
    assert [one.get("http.response.status_code") for one in told] == [503, None, 200]
    assert [one.get("error.type") for one in told] == ["503", "refused", None]
    assert [one.get("http.request.resend_count") for one in told] == [None, 1, 2]
    assert [one["pier.outcome"] for one in told] == ["retrying", "retrying", "delivered"]
    assert [bool(span.error) for span in spans] == [True, True, False]
    sent_spans = [parse_context(post.headers["traceparent"]) for post in world.poster.posted]
    assert [one.span_id for one in sent_spans if one] == [span.span_id for span in spans]


async def test_a_batch_is_a_trace_of_its_own_that_is_linked_with_each_message() -> None:
    world = World()
    reply, event = held()
    world.poster.script(URL, reply, Reply(body=b'{"failed": []}'))
    of = subscription(batch=10, max_concurrency=1)
    async with world.worker(of, spans=(recorder := SpanRecorder(Sampler(0.0), world.clock))):
        await world.publish()
        await world.clock.settle()
        for changes in ({"traceparent": SAMPLED, "tracestate": "a=b"}, {"traceparent": UNSAMPLED}, {}):
            await world.publish(**changes)
        await world.clock.settle()
        event.set()
        await world.clock.until(lambda: len(recorder) == 1)
    (span,) = recorder.take(9)
    assert "traceparent" not in world.poster.posted[0].headers
    post = world.poster.posted[1]
    entries = [json.loads(line) for line in post.body.splitlines()]
    first = TraceContext(TRACE, span_of(entries[0]["id"]), 1, "a=b")
    assert span.links == [first]
    assert (span.parent_id, span.message_id) == ("", "")
    assert parse_context(post.headers["traceparent"]) == TraceContext(span.trace_id, span.span_id, 1)
    assert [entry.get("traceparent") for entry in entries] == [first.traceparent, UNSAMPLED, None]
    assert [entry.get("tracestate") for entry in entries] == ["a=b", None, None]
    found = dict(span.own)
    assert (found["messaging.batch.message_count"], found["pier.failed"]) == (3, 0)
    assert found["pier.batch"] == post.headers["webhook-id"]
    assert span.error == ""


async def test_a_batch_of_which_some_failed_says_how_many() -> None:
    world = World()
    of = subscription(batch=10, max_concurrency=1)
    sent = fresh(next(world.made), world.clock, traceparent=SAMPLED)
    world.poster.script(URL, Reply(body=json.dumps({"failed": [sent.id]}).encode()))
    async with world.worker(of, spans=(recorder := SpanRecorder(Sampler(0.0), world.clock))):
        await world.transport.publish([OutgoingMessage(sent, encode_message(sent))])
        await world.clock.until(lambda: len(recorder) == 1)
    (span,) = recorder.take(9)
    assert (dict(span.own)["pier.failed"], span.error) == (1, "1 of 1 were not taken")


async def test_what_is_in_a_query_is_not_told() -> None:
    world = World()
    url = "http://user.example:8080/hook?token=secret"
    (span,) = await posted(world, subscription(url=url), 1.0, {})
    found = dict(span.shape.attributes)
    assert found["url.full"] == "http://user.example:8080/hook?REDACTED"
    assert (found["server.address"], found["server.port"]) == ("user.example", 8080)
