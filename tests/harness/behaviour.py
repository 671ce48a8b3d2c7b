"""The behaviour of a test subscriber for the calls of one path."""

from __future__ import annotations

import random

import msgspec


class Behaviour(msgspec.Struct, kw_only=True):
    """Read from ``delay:0.2,fail:0.3,status:500`` and the like.

    Attributes
    ----------
    delay
        Seconds before each answer.
    fail
        Share of calls that are answered with ``status``.
    status
        The code of a failing answer; one of a redirection leads to another path.
    first
        Attempts of each message up to this number are answered with ``status``.
    poison
        Messages whose number it divides are answered with ``status``; 0 for none.
    hang
        Never answer.
    stall
        Share of calls that are never answered.
    cut
        Share of calls whose answer ends within its first line, with the connection.
    trickle
        Seconds in which each answer comes, byte by byte.
    fail_each
        Share of the messages of a batch that its answer lists as failed.
    retry_after
        Seconds for the Retry-After header of a failing answer.
    secret
        ``whsec_...``: signatures are verified, a bad one is answered 401.
    seed
        For the choice of the calls that fail.
    """

    delay: float = 0.0
    fail: float = 0.0
    status: int = 503
    first: int = 0
    poison: int = 0
    hang: bool = False
    stall: float = 0.0
    cut: float = 0.0
    trickle: float = 0.0
    fail_each: float = 0.0
    retry_after: int | None = None
    secret: str | None = None
    seed: int = 0

    def dice(self, path: str) -> random.Random:
        """Return the random numbers of one path, the same in each run with this seed."""
        return random.Random(f"{self.seed}{path}")


def parse_behaviour(text: str, default: Behaviour) -> Behaviour:
    """Return the default with the settings of ``text`` applied.

    Raises
    ------
    msgspec.ValidationError
        An unknown setting or an impossible value.
    """
    pairs = (item.partition(":") for item in text.split(",") if item)
    given = {name: value if colon else "true" for name, colon, value in pairs}
    unknown = set(given) - set(Behaviour.__struct_fields__)
    if unknown:
        raise msgspec.ValidationError(f"unknown behaviour: {', '.join(sorted(unknown))}")
    return msgspec.convert(msgspec.to_builtins(default) | given, Behaviour, strict=False)


def parse_paths(specs: list[str], default: Behaviour) -> dict[str, Behaviour]:
    """Read ``/slow=delay:0.2`` specifications."""
    split = (spec.partition("=") for spec in specs)
    return {path: parse_behaviour(text, default) for path, _, text in split}
