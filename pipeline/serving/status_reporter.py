"""Status reports of a pipeline to the bus, which answers with the runs that people request."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

import msgspec

from bus.cli.api import Api
from bus.domain.pipelines import Pipeline, RunRequest
from bus.error_texts import error_text
from bus.errors import BusError
from pipeline.commands.telling import ReportTarget
from pipeline.serving.listeners import Listeners
from pipeline.serving.metrics import RunMetrics

PATH: Final = "/api/v1/pipeline"
_TELL_S: Final = 2.0
_ANSWER_S: Final = 10.0


class _Answer(msgspec.Struct):
    wishes: list[RunRequest]


class StatusReporter:
    """Reports the status of a pipeline to a bus every two seconds.

    Parameters
    ----------
    state
        Returns the status.
    take
        Is called with each request that the bus has; raises ``OSError`` where it cannot be kept, and is called again.
    listeners
        Are called with trouble once, for as long as it is the same.
    """

    def __init__(
        self,
        telling: ReportTarget,
        state: Callable[[], Pipeline],
        take: Callable[[RunRequest], None],
        metrics: RunMetrics,
        listeners: Listeners,
    ) -> None:
        self._telling = telling
        self._state = state
        self._take = take
        self._metrics = metrics
        self._listeners = listeners

    def run(self, ending: threading.Event) -> None:
        """Report until ``ending`` is set, and then once more."""
        trouble = ""
        with Api(self._telling.url, self._telling.api_key, timeout=_ANSWER_S) as api:
            while True:
                is_last = ending.wait(_TELL_S)
                found = self._tell(api)
                if found and found != trouble:
                    self._listeners.trouble(found)
                trouble = found
                if is_last:
                    return

    def _tell(self, api: Api) -> str:
        """Report once and return the error; empty for none."""
        try:
            answer = msgspec.convert(api.call("PUT", PATH, body=self._state()), _Answer)
            self._metrics.told()
            for wish in answer.wishes:
                self._take(wish)
        except BusError as error:
            return " · ".join(filter(None, (f"the bus was not told how this is: {error}", str(error.hint))))
        except msgspec.ValidationError as error:
            return f"{api.url} does not answer as a bus does: {error}"
        except OSError as error:
            return f"the lake cannot be written, and is tried again: {error_text(error)}"
        return ""
