"""The part of the proofs that a test belongs to, by its path."""

from __future__ import annotations

from typing import Final

# The first part that has a word of the path; what has none is about the bus itself.
_WORDS: Final = {
    "attack": ("acceptance/attack/", "fuzz/"),
    "hosts": ("acceptance/hosts/",),
    "combinations": ("acceptance/combinations/",),
    "pipeline": ("pipeline", "test_reconcile", "test_spark"),
    "pages": ("acceptance/pages/", "test_api_fuzz", "unit/admin/"),
    "brokers": (
        "kafka",
        "rabbitmq",
        "nsq",
        "mongodb",
        "zookeeper",
        "acceptance/lookup/",
        "broker_faults",
        "strict_order",
        "degradation",
        "live_switch",
        "bench_transports",
        "bench_loss",
    ),
}
_OTHERWISE: Final = "kills"
PARTS: Final = (_OTHERWISE, *reversed(_WORDS))


def part_of(path: str) -> str:
    """Return the part of a file of tests: ``kills`` (of the bus, its disk and power), ``brokers`` (with the stores),
    ``pages`` (with the API behind them), ``pipeline``, ``combinations`` (of features), ``hosts``
    (several, cut off) or ``attack`` (many faults at once, as from outside).
    """
    return next((part for part, words in _WORDS.items() if any(word in path for word in words)), _OTHERWISE)
