"""A process of its own that notifies one channel by Apprise, so that no service can harm the bus: ``python -m`` this.

``check`` reads the URLs of channels from stdin, ``notify`` a ``Notification``; both write an error to stdout.
"""

from __future__ import annotations

import logging
import os
import resource
import sys
from typing import Any, Final

import msgspec

from bus.error_texts import error_text

MOST_BYTES: Final = 2**20
"""The part of a service's answer that is read."""
NOT_ACCEPTED: Final = "-"
"""Written to stdout when Apprise reports only that a service did not accept a notification."""
_MEMORY: Final = 1 << 30  # address space; what Apprise maps is less than a tenth
_LONGEST: Final = 500
_POLITE: Final = 5  # lower priority than the bus, which may be short of CPU during an alarm


class Notification(msgspec.Struct):
    """The text for a channel; ``kind`` is one of the types of Apprise."""

    url: str
    title: str
    body: str
    kind: str


def _bounded(send: Any) -> Any:
    """Limit requests to the first bytes of an answer, without redirects, which may lead anywhere."""

    def first_bytes(session: Any, request: Any, **options: Any) -> Any:
        answer = send(session, request, **{**options, "stream": True, "allow_redirects": False})
        answer._content = answer.raw.read(MOST_BYTES, decode_content=True)  # noqa: SLF001 - where requests has the whole body
        answer._content_consumed = True  # noqa: SLF001
        answer.close()
        return answer

    return first_bytes


def _check(urls: list[str]) -> str:
    """Return the number, from 0, of the first URL that Apprise does not support; empty for none."""
    import apprise  # noqa: PLC0415 - slow, and after the limits

    return next((str(number) for number, url in enumerate(urls) if not apprise.Apprise().add(url)), "")


def _notify(notification: Notification) -> str:
    """Notify a channel; return the reason of a failure, empty on success."""
    import apprise  # noqa: PLC0415
    import requests  # noqa: PLC0415

    requests.Session.send = _bounded(requests.Session.send)  # type: ignore[method-assign]
    target = apprise.Apprise()
    target.add(notification.url)
    taken = target.notify(
        body=notification.body,
        title=notification.title,
        body_format="text",
        notify_type=apprise.NotifyType(notification.kind),
    )
    return "" if taken else NOT_ACCEPTED


def main() -> None:
    """Run the command."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    os.nice(_POLITE)
    logging.disable()  # what Apprise logs has URLs with secrets
    asked = sys.stdin.buffer.read()
    try:
        if sys.argv[1] == "check":
            said = _check(msgspec.json.decode(asked, type=list[str]))
        else:
            said = _notify(msgspec.json.decode(asked, type=Notification))
    except Exception as error:  # noqa: BLE001 - a plugin of a library, whose errors are its own
        said = str(error_text(error))
    sys.stdout.write(said[:_LONGEST])


if __name__ == "__main__":
    main()
