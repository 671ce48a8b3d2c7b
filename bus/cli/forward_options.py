"""Copies of messages, POSTed to a URL as to a subscriber."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import typer

from bus.domain.delivery.request import USER_AGENT, message_headers
from bus.domain.message import Message
from bus.domain.times import parse_time
from bus.error_texts import error_text
from bus.network.names import is_http_url

if TYPE_CHECKING:
    import httpx

    from bus.security.signatures import Signer

_PATIENCE: Final = 10.0


class ForwardOptions(NamedTuple):
    """The target of copies, and their signature."""

    url: str
    signer: Signer | None
    http: httpx.Client

    @classmethod
    @contextmanager
    def to(cls, url: str, secret: str | None) -> Iterator[Self]:
        """Open a target; raises a usage error if the URL or the secret is malformed."""
        if not is_http_url(url):
            raise typer.BadParameter(f"{url!r} is not an http or https URL", param_hint="--to")
        import httpx  # noqa: PLC0415 - `bus --help` does without

        from bus.security.signatures import Signer  # noqa: PLC0415

        try:
            signer = Signer([secret]) if secret is not None else None
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--secret") from error
        with httpx.Client(timeout=_PATIENCE, trust_env=False) as http:
            yield cls(url, signer, http)

    def copy(self, found: dict[str, Any], body: bytes) -> str:
        """POST a message of the API with its body, and return the result as text."""
        import httpx  # noqa: PLC0415

        now, message = time.time_ns() // 1_000_000, _message(found, body)
        signature = self.signer.sign(message.id, now // 1000, message.body) if self.signer is not None else ""
        constant = {"user-agent": USER_AGENT, "bus-destination": message.destination}
        headers = [*constant.items(), *message_headers(message, 1, now, signature, constant)]
        encoded = [(name.encode(), value.encode()) for name, value in headers]
        begun = time.monotonic()
        try:
            answer = self.http.post(self.url, content=message.body, headers=encoded)
        except httpx.HTTPError as error:
            return f"no response: {error_text(error)}"
        return f"{answer.status_code} in {(time.monotonic() - begun) * 1000:.0f} ms"


def _message(found: dict[str, Any], body: bytes) -> Message:
    return Message(
        id=found["id"],
        destination=found["destination"],
        body=body,
        content_type=found["content_type"],
        sent_at=parse_time(found["sent_at"]) if found["sent_at"] else 0,
        biz_id=found["biz_id"] or "",
        key=found["key"] or "",
        headers=found["headers"],
        traceparent=found["traceparent"] or "",
    )
