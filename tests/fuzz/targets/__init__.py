"""The targets by name. A module is imported when one of its own is asked for: the fuzzer instruments what is."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from tests.fuzz.target import Target

_MODULES: Final = {
    "answers": ("answers", "batch_answers", "lookups", "retry_after"),
    "brokers": ("nsq_compression", "nsq_frames"),
    "messages": ("cloud_events", "trace_events"),
    "passing": ("passed_on",),
    "people": ("cookies", "forwarded", "oidc_tokens"),
    "sockets": ("frames", "handshakes"),
    "requests": ("chunked_bodies", "ndjson", "request_heads", "trailers"),
}
NAMES: Final = sorted(name for names in _MODULES.values() for name in names)


def target(name: str) -> Target:
    """Return a target; raises ``KeyError`` for a name that none has."""
    module = next((module for module, names in _MODULES.items() if name in names), None)
    if module is None:
        raise KeyError(name)
    found: Target = import_module(f"{__name__}.{module}").TARGETS[name]
    return found
