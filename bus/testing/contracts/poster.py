"""The contract of `Poster`: inherit `PosterContract` and give it a world."""

# ruff: noqa: D102, PLR2004, S101 - tests

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, Protocol

import pytest

from bus.errors import EgressDenied
from bus.ports.poster import Poster, PostFailure, PostResult
from bus.testing.poster import PostedRequest, Reply


class PosterWorld(Protocol):
    """A poster and subscribers for it; `PosterContract.world` is a fixture that returns one.

    Attributes
    ----------
    poster
        Allowed to call the subscribers of this world.
    posted
        What the subscribers received, in order.
    """

    poster: Poster
    posted: list[PostedRequest]

    async def subscriber(self, *replies: Reply) -> str:
        """Return the URL of a new subscriber that does this, request by request; the last repeats.

        Of the failures only ``TIMEOUT`` (never answers), ``RESET`` (closes instead of answering) and
        ``REFUSED`` (no server listens) are asked for.
        """
        ...


async def _post(world: PosterWorld, *replies: Reply, body: bytes = b"hello", timeout: float = 5.0) -> PostResult:  # noqa: ASYNC109
    target = world.poster.target(await world.subscriber(*replies), {})
    return await world.poster.post(target, [], body, timeout)


class _FutureWaiter:
    """A waiter that is told in a future."""

    def __init__(self) -> None:
        self.result: asyncio.Future[PostResult] = asyncio.get_running_loop().create_future()

    def set_result(self, result: PostResult, /) -> None:
        self.result.set_result(result)

    def go_on(self, post: Coroutine[Any, Any, PostResult], /) -> None:
        self.rest = asyncio.ensure_future(post)
        self.rest.add_done_callback(lambda done: self.result.set_result(done.result()))


class PosterContract:
    """What every poster does. Needs pytest-asyncio in auto mode."""

    async def test_success_has_a_status_and_no_failure(self, world: PosterWorld) -> None:
        result = await _post(world, Reply(204))
        assert (result.status, result.failure, result.error, result.indeterminate) == (204, None, "", False)
        assert result.duration >= 0.0

    async def test_request_arrives_as_given(self, world: PosterWorld) -> None:
        body = bytes(range(256)) * 5
        target = world.poster.target(await world.subscriber(Reply()), {"X-Constant": "one"})
        await world.poster.post(target, [("webhook-id", "m1"), ("Bus-Biz-Id", "42")], body, 5.0)
        (posted,) = world.posted
        assert posted.body == body
        assert {"x-constant": "one", "webhook-id": "m1", "bus-biz-id": "42"}.items() <= posted.headers.items()

    async def test_a_trial_shows_what_was_sent_and_what_was_answered(self, world: PosterWorld) -> None:
        reply = Reply(503, headers=(("X-Reason", "tired"), ("Retry-After", "3")), body=b"y" * 10_000)
        target = world.poster.target(await world.subscriber(reply), {"X-Constant": "one"})
        trial = await world.poster.trial(target, [("webhook-id", "m1")], b"hello", 5.0)
        (posted,) = world.posted
        assert posted.body == b"hello"
        shown = {name.lower(): value for name, value in trial.headers}
        assert posted.headers.items() <= shown.items()
        assert {"x-constant": "one", "webhook-id": "m1", "content-length": "5"}.items() <= shown.items()
        assert trial.url == target.url
        assert (trial.result.status, trial.result.failure) == (503, None)
        assert (trial.result.response, trial.answer_bytes) == (b"y" * 10_000, 10_000)
        assert {("X-Reason", "tired"), ("Retry-After", "3")} <= set(trial.answer_headers)

    async def test_a_trial_that_is_not_answered_has_no_answer(self, world: PosterWorld) -> None:
        target = world.poster.target(await world.subscriber(Reply(failure=PostFailure.REFUSED)), {})
        trial = await world.poster.trial(target, [], b"", 5.0)
        assert (trial.result.status, trial.result.failure) == (None, PostFailure.REFUSED)
        assert (trial.answer_headers, trial.answer_bytes) == ([], 0)
        hung = world.poster.target(await world.subscriber(Reply(failure=PostFailure.TIMEOUT)), {})
        trial = await world.poster.trial(hung, [], b"", 0.1)
        assert (trial.result.failure, trial.answer_headers) == (PostFailure.TIMEOUT, [])
        assert trial.headers

    async def test_a_trial_takes_no_header_that_http_does_not_allow(self, world: PosterWorld) -> None:
        target = world.poster.target(await world.subscriber(Reply()), {})
        with pytest.raises(ValueError, match="control character"):
            await world.poster.trial(target, [("x", "a\r\nb: c")], b"", 5.0)
        assert world.posted == []

    async def test_constant_header_wins(self, world: PosterWorld) -> None:
        target = world.poster.target(await world.subscriber(Reply()), {"Authorization": "ours"})
        await world.poster.post(target, [("authorization", "theirs"), ("x", "y")], b"", 5.0)
        assert world.posted[0].headers["authorization"] == "ours"
        assert world.posted[0].headers["x"] == "y"

    @pytest.mark.parametrize("body", [b"", b"x" * 65_536, b"x" * 65_537, b"x" * (1 << 20)])
    async def test_bodies_of_any_size(self, world: PosterWorld, body: bytes) -> None:
        assert (await _post(world, Reply(), body=body)).status == 200
        assert world.posted[0].body == body

    @pytest.mark.parametrize("status", [201, 302, 307, 400, 410, 429, 500, 503])
    async def test_any_status_is_an_answer(self, world: PosterWorld, status: int) -> None:
        result = await _post(world, Reply(status, headers=(("location", "http://127.0.0.1:1/"),)))
        assert (result.status, result.failure, result.indeterminate) == (status, None, False)
        assert len(world.posted) == 1

    @pytest.mark.parametrize("value", ["120", "Wed, 21 Oct 2026 07:28:00 GMT"])
    async def test_retry_after_is_given_as_sent(self, world: PosterWorld, value: str) -> None:
        assert (await _post(world, Reply(503, headers=(("Retry-After", value),)))).retry_after == value

    async def test_the_date_is_given_with_retry_after(self, world: PosterWorld) -> None:
        date = "Wed, 21 Oct 2026 07:27:00 GMT"
        result = await _post(
            world, Reply(503, headers=(("Retry-After", "Wed, 21 Oct 2026 07:28:00 GMT"), ("Date", date)))
        )
        assert result.date == date
        assert (await _post(world, Reply(503))).date is None

    async def test_response_is_kept_and_capped(self, world: PosterWorld) -> None:
        assert (await _post(world, Reply(body=b"ok"))).response == b"ok"
        capped = await _post(world, Reply(body=b"y" * 1_000_000))
        assert capped.status == 200
        assert 0 < len(capped.response) <= 65_536

    async def test_silence_ends_at_the_deadline(self, world: PosterWorld) -> None:
        begun = time.monotonic()
        result = await _post(world, Reply(failure=PostFailure.TIMEOUT), timeout=0.1)
        assert (result.status, result.failure, result.indeterminate) == (None, PostFailure.TIMEOUT, True)
        assert 0.05 < time.monotonic() - begun < 2.0

    async def test_close_without_an_answer(self, world: PosterWorld) -> None:
        result = await _post(world, Reply(failure=PostFailure.RESET))
        assert (result.status, result.failure, result.indeterminate) == (None, PostFailure.RESET, True)
        assert result.error

    async def test_nobody_listens(self, world: PosterWorld) -> None:
        result = await _post(world, Reply(failure=PostFailure.REFUSED))
        assert (result.status, result.failure, result.indeterminate) == (None, PostFailure.REFUSED, False)

    async def test_post_after_a_failure(self, world: PosterWorld) -> None:
        target = world.poster.target(await world.subscriber(Reply(failure=PostFailure.RESET), Reply(200)), {})
        assert (await world.poster.post(target, [], b"", 5.0)).failure is PostFailure.RESET
        assert (await world.poster.post(target, [], b"", 5.0)).status == 200

    async def test_many_at_once(self, world: PosterWorld) -> None:
        target = world.poster.target(await world.subscriber(Reply(202)), {})
        posts = (world.poster.post(target, [("n", str(n))], str(n).encode(), 5.0) for n in range(40))
        assert {result.status for result in await asyncio.gather(*posts)} == {202}
        assert sorted(int(posted.body) for posted in world.posted) == list(range(40))
        assert all(posted.headers["n"].encode() == posted.body for posted in world.posted)

    async def test_begin_needs_a_kept_connection_and_tells_later(self, world: PosterWorld) -> None:
        target = world.poster.target(await world.subscriber(Reply(201)), {})
        waiter = _FutureWaiter()
        assert world.poster.begin(target, [], b"1", 5.0, waiter) is None
        await world.poster.post(target, [], b"1", 5.0)
        assert world.poster.begin(target, [("bus-attempt", "2")], b"2", 5.0, waiter) is not None
        assert not waiter.result.done()
        assert (await waiter.result).status == 201
        assert [posted.body for posted in world.posted] == [b"1", b"2"]
        assert world.posted[1].headers["bus-attempt"] == "2"

    async def test_what_began_and_is_canceled_is_not_told_of(self, world: PosterWorld) -> None:
        target = world.poster.target(await world.subscriber(Reply(), Reply(failure=PostFailure.TIMEOUT), Reply()), {})
        await world.poster.post(target, [], b"1", 5.0)
        waiter = _FutureWaiter()
        ongoing = world.poster.begin(target, [], b"2", 5.0, waiter)
        assert ongoing is not None
        async with asyncio.timeout(5):
            while len(world.posted) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        ongoing.cancel()
        assert (await world.poster.post(target, [], b"3", 5.0)).status == 200
        assert not waiter.result.done()

    async def test_what_began_and_failed_is_told(self, world: PosterWorld) -> None:
        target = world.poster.target(await world.subscriber(Reply(), Reply(failure=PostFailure.TIMEOUT)), {})
        await world.poster.post(target, [], b"1", 5.0)
        waiter = _FutureWaiter()
        world.poster.begin(target, [], b"2", 0.1, waiter)
        result = await waiter.result
        assert (result.failure, result.indeterminate) == (PostFailure.TIMEOUT, True)

    async def test_cancelling_raises_and_the_next_post_works(self, world: PosterWorld) -> None:
        target = world.poster.target(await world.subscriber(Reply(failure=PostFailure.TIMEOUT), Reply(200)), {})
        task = asyncio.ensure_future(world.poster.post(target, [], b"", 60.0))
        while not world.posted:  # noqa: ASYNC110 - a world has no event for it
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await world.poster.post(target, [], b"", 5.0)).status == 200

    async def test_target_knows_its_url(self, world: PosterWorld) -> None:
        url = await world.subscriber(Reply())
        assert world.poster.target(url, {}).url == url

    @pytest.mark.parametrize(
        "url",
        ["ftp://a.example/", "http://u:p@a.example/", "http:///x", "http://10.0.0.1/", "http://[::ffff:10.0.0.1]/"],
    )
    async def test_denied_urls(self, world: PosterWorld, url: str) -> None:
        with pytest.raises(EgressDenied):
            world.poster.target(url, {})

    @pytest.mark.parametrize(
        ("name", "value"),
        [("x", "a\r\nb: c"), ("x", "a\nb"), ("x", "a\rb"), ("x", "a\0b"), ("x\r\ny", "a"), ("x y", "a"), ("", "a")],
    )
    async def test_broken_headers(self, world: PosterWorld, name: str, value: str) -> None:
        url = await world.subscriber(Reply())
        with pytest.raises(ValueError, match="header"):
            world.poster.target(url, {name: value})
        with pytest.raises(ValueError, match="header"):
            await world.poster.post(world.poster.target(url, {}), [(name, value)], b"", 5.0)
        assert world.posted == []

    @pytest.mark.parametrize("name", ["Host", "content-length", "Transfer-Encoding", "connection", "Expect"])
    async def test_reserved_headers(self, world: PosterWorld, name: str) -> None:
        url = await world.subscriber(Reply())
        with pytest.raises(ValueError, match="header"):
            world.poster.target(url, {name: "1"})
        with pytest.raises(ValueError, match="header"):
            await world.poster.post(world.poster.target(url, {}), [(name, "1")], b"", 5.0)
