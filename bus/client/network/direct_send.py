"""Direct send to the receiver, for messages that this machine's disk refuses."""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TooLate
from threading import Lock, Thread

from bus.client.fork_gate import GATE
from bus.client.network.http import STRAIGHT_THREAD, ReceiverClient, Reply
from bus.client.options import REQUEST_BYTES, REQUEST_LINES, Options, PreparedMessage
from bus.client.spooling.line import decode_head
from bus.error_texts import error_text
from bus.errors import SpoolError

_log = logging.getLogger("bus.client")
Verdict = Future[str]


class DirectSend:
    """Posts messages that a disk refused, and counts them; any thread may send, and a forked child starts at zero.

    One thread posts, all that waits in one request, so that a hung network holds one thread however many send. It is
    started when there is something to send and ends when there is not.

    Parameters
    ----------
    waits
        Whether messages to a destination wait on disk, which one with a key must not pass.
    """

    def __init__(self, options: Options, waits: Callable[[str], bool]) -> None:
        self._options = options
        self._waits = waits
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = Lock()
        self._queue: deque[tuple[PreparedMessage, Verdict]] = deque()
        self._is_running = False
        self._refused = False
        self._receiver: ReceiverClient | None = None
        self._count = 0

    @property
    def seconds(self) -> float:
        """How long a sender waits."""
        return self._options.fallback_timeout

    @property
    def count(self) -> int:
        """How many messages of this process the receiver took straight from `send`."""
        return self._count if self._pid == os.getpid() else 0

    @property
    def refused(self) -> bool:
        """Whether the disk refused the last write."""
        return self._refused and self._pid == os.getpid()

    def send(self, prepared: PreparedMessage, refusal: SpoolError) -> None:
        """Return once the receiver has the message durably, within ``fallback_timeout`` seconds.

        Raises
        ------
        SpoolError
            As ``refusal``: neither the disk nor the receiver took it. After a time-out the receiver may still have.
        """
        verdict = self.submit(prepared, refusal)
        try:
            problem = verdict.result(self.seconds)
        except TooLate:
            problem = self.give_up(verdict)
        if problem:
            raise self.failure(refusal, problem)

    def submit(self, prepared: PreparedMessage, refusal: SpoolError) -> Verdict:
        """Queue a message for posting; the verdict is empty once the receiver has it, else the reason why not."""
        if self._pid != os.getpid():
            self._begin()
        verdict = Verdict()
        if not self.seconds:
            verdict.set_result("fallback_timeout is 0, so it was not tried")
            return verdict
        if prepared.key and self._waits(prepared.destination):
            verdict.set_result("messages to its destination wait on disk, and a message with a key is sent after them")
            return verdict
        with self._lock:
            self._tell(refusal)
            self._queue.append((prepared, verdict))
            if not self._is_running:
                self._start(verdict)
        return verdict

    def give_up(self, verdict: Verdict) -> str:
        """Cancel a message whose posting has not begun; return the text of the error."""
        verdict.cancel()
        return f"no answer within {self.seconds:g} s"

    def failure(self, refusal: SpoolError, problem: str) -> SpoolError:
        """Return the error for a message that neither took."""
        return type(refusal)(
            f"{refusal}; the receiver {self._options.url} has not confirmed this message: {problem}", hint=refusal.hint
        )

    def close(self) -> None:
        """Close the connection, unless a thread is still sending on it."""
        if self._pid != os.getpid():
            return
        with self._lock:
            if self._receiver is not None and not self._is_running:
                self._receiver.close()
                self._receiver = None

    def disk_is_well(self) -> None:
        """Note that the disk took something."""
        if self._refused:
            self._refused = False
            _log.info("%s takes messages again", self._options.root)

    def _tell(self, refusal: SpoolError) -> None:
        if not self._refused:
            _log.warning("messages go straight to %s, since the disk refuses them: %s", self._options.url, refusal)
        self._refused = True

    def _start(self, verdict: Verdict) -> None:
        try:
            Thread(target=self._run, name=STRAIGHT_THREAD, daemon=True).start()
        except RuntimeError:  # the interpreter is about to exit
            self._queue.clear()
            verdict.set_result("the interpreter is about to exit")
        else:
            self._is_running = True

    def _run(self) -> None:
        while taken := self._take():
            self._post(taken)

    def _take(self) -> list[tuple[PreparedMessage, Verdict]]:
        """Return the messages for one request whose callers still wait; no error ends the thread."""
        taken: list[tuple[PreparedMessage, Verdict]] = []
        room = REQUEST_BYTES
        with self._lock:
            while self._queue and len(taken) < REQUEST_LINES:
                room -= len(self._queue[0][0].record.payload) + 1
                if room < 0 and taken:
                    break
                found = self._queue.popleft()
                if found[1].set_running_or_notify_cancel():
                    taken.append(found)
            self._is_running = bool(taken)
        return taken

    def _post(self, taken: Sequence[tuple[PreparedMessage, Verdict]]) -> None:
        try:
            reply = self._speak([prepared for prepared, _ in taken])
        except Exception as error:  # noqa: BLE001 - it is each sender's; an error of the network is a reply
            _log.exception("a request to %s failed unexpectedly", self._options.url)
            reply = Reply(None, str(error_text(error)))
        if reply.results is None and reply.splits and reply.status and len(taken) > 1:
            for one in taken:  # a single line may be the cause
                self._post([one])
            return
        problems = [reply.failure] * len(taken)
        if reply.results is not None:
            problems = ["" if result.is_taken else str(result.error) for result in reply.results]
        self._count += problems.count("")
        for (_, verdict), problem in zip(taken, problems, strict=True):
            verdict.set_result(problem)

    def _speak(self, messages: Sequence[PreparedMessage]) -> Reply:
        if self._receiver is None:
            options = self._options
            with GATE:  # an import that a fork cuts off can never be finished in the child
                self._receiver = ReceiverClient(
                    options.url, options.api_key, options.clock, self.seconds, options.transport
                )
        lines = [one.record.payload for one in messages]
        return self._receiver.post(lines, [decode_head(line) for line in lines], is_straight=True)
