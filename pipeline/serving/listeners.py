"""Listeners to the events of a running pipeline."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from bus.domain.pipelines import Run
from pipeline.jobs.batch import Batch


class Listeners(NamedTuple):
    """Called in the thread in which it happened: with a batch, with a run that ended, with trouble in words."""

    batch: Callable[[Batch], None]
    run: Callable[[Run], None]
    trouble: Callable[[str], None]
