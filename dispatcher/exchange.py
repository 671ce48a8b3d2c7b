"""One POST under way, of one delivery or of a batch."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple, Protocol

from bus.domain.delivery.delivery import Attempt, BatchMark
from bus.domain.delivery.verdict import Answer
from bus.domain.tracing.spans import StartedSpan
from bus.ports.poster import OngoingPost, Poster, PostFailure, PostResult, Target
from dispatcher.pending_deliveries import PendingDelivery

Load = Sequence[PendingDelivery]
"""The deliveries of one POST."""
Post = tuple[Target, list[tuple[str, str]], bytes, float]
"""The arguments of a poster: target, headers, body and time-out in seconds."""


class PostResults(NamedTuple):
    """The results of a POST.

    Attributes
    ----------
    attempts
        For each delivery of the load its attempt, and the answer to it.
    answer
        To the POST as a whole.
    failure
        Why there is no answer; None when there is one.
    """

    attempts: Sequence[tuple[Attempt, Answer]]
    answer: Answer
    failure: PostFailure | None


class Maker(Protocol):
    """Makes attempts and reports their results."""

    told: Callable[[Exchange, PostResults], None]
    go_on: Callable[[Coroutine[Any, Any, None]], object]

    def made(self, exchange: Exchange, result: PostResult) -> PostResults:
        """Return the results of an exchange."""
        ...


class Exchange:
    """A POST: without a task where a connection is kept, else awaited in one.

    Attributes
    ----------
    load
        The deliveries that it carries.
    is_probe
        Whether it tries a subscriber that is taken to be down.
    started
        Milliseconds since the epoch.
    post
        What is sent; None for a URL that is denied.
    mark
        Which batch it is; None for a message alone.
    span
        Its span; None where that is not recorded.
    """

    __slots__ = ("_maker", "_ongoing", "is_probe", "load", "mark", "post", "span", "started")

    def __init__(self, maker: Maker, load: Load, started: int, *, is_probe: bool) -> None:
        self._maker = maker
        self._ongoing: OngoingPost | None = None
        self.load = load
        self.is_probe = is_probe
        self.started = started
        self.post: Post | None = None
        self.mark: BatchMark | None = None
        self.span: StartedSpan | None = None

    def begin(self, poster: Poster) -> bool:
        """Begin the POST on a kept connection, and report its result; False if there is none, or it cannot be sent."""
        if self.post is None:
            return False
        try:
            self._ongoing = poster.begin(*self.post, self)
        except ValueError:
            return False
        return self._ongoing is not None

    def set_result(self, result: PostResult, /) -> None:
        """Report the result."""
        self._ongoing = None  # it has us: only the garbage collector would free both, which holds up everything
        self._maker.told(self, self._maker.made(self, result))

    def go_on(self, post: Coroutine[Any, Any, PostResult], /) -> None:
        """Have the rest awaited, and then reported."""
        self._maker.go_on(self._await(post))

    async def _await(self, post: Coroutine[Any, Any, PostResult]) -> None:
        self.set_result(await post)

    def cancel(self) -> None:
        """End the POST without a report, where it has no task."""
        if self._ongoing is not None:
            self._ongoing.cancel()
