"""The number of examples for properties and state machines: few in every run, many in a proof."""

from __future__ import annotations

from typing import Final

from hypothesis import HealthCheck, settings

# A busy machine is no fault of what is tested.
_BUSY: Final = (HealthCheck.too_slow,)


def register_profiles() -> None:
    """Make the profiles ``test``, in force, and ``proof`` (``--hypothesis-profile proof``, as ``make proof`` has it).

    In the first the same examples come in every run, so that a change that is red is red by itself.
    """
    settings.register_profile(
        "test",
        max_examples=25,
        stateful_step_count=25,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=_BUSY,
    )
    settings.register_profile(
        "proof", max_examples=500, stateful_step_count=50, deadline=None, print_blob=True, suppress_health_check=_BUSY
    )
    settings.load_profile("test")
