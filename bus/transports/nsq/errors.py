"""Errors between this client and an nsqd or nsqlookupd; inside the package only.

NsqFault
├── NotNsq          the bytes are not NSQ's protocol
├── Answered        an error that nsqd answered, by its code
├── Disconnected    no connection, or it was lost; what was asked may or may not have happened
└── Denied          credentials, certificates or features do not match; waiting alone does not help
"""

from __future__ import annotations

from typing import Final

NOT_LEADER: Final = "E_FAILED_ON_NOT_LEADER"
ELSEWHERE: Final = frozenset({NOT_LEADER, "E_FAILED_ON_NOT_WRITABLE", "E_TOPIC_NOT_EXIST"})
"""Codes by which an nsqd of the fork says that a partition is to be looked for elsewhere."""

ORDER_IS_MUST: Final = "E_SUB_ORDER_IS_MUST"
DEMANDING: Final = frozenset({ORDER_IS_MUST, "E_SUB_EXTEND_NEED", "E_SUB_EXTEND_FORBIDDON"})
"""Codes by which an nsqd of the fork says that a topic is to be subscribed to in another way."""


class NsqFault(Exception):
    """Root of the client's errors."""


class NotNsq(NsqFault):
    """The peer uses another protocol, or a newer version."""


class ConnectionLost(NsqFault):
    """There is no connection; whether the command took effect is unknown."""


class PermissionRefused(NsqFault):
    """The peer refuses us, or we refuse it; a setting has to be changed."""


class ErrorFrame(NsqFault):
    """An error frame.

    Attributes
    ----------
    code
        NSQ's own, such as ``E_BAD_TOPIC``.
    detail
        What nsqd says beside it.
    """

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code} {detail}".strip())
        self.code = code
        self.detail = detail
