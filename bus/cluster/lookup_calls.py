"""Calls of an admin to a lookup proxy for people whom the admin has authenticated and audited."""

from __future__ import annotations

from typing import Final

import msgspec

from bus.cluster.peers import PREFIX

LOOKUP: Final = f"{PREFIX}/lookup"
ROLE: Final = "lookup"


class LookupCall(msgspec.Struct, frozen=True):
    """A request to the API of lookup proxies; ``path`` is that below ``/api/v1/lookup``, ``by`` a person's name."""

    method: str
    path: str
    body: bytes
    by: str


class LookupAnswer(msgspec.Struct, frozen=True):
    """The answer as the API gives it; from 400 on ``content`` is a problem document."""

    status: int
    content: bytes
