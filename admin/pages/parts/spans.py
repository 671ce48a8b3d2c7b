"""Spans of time that end now: chosen by a link, kept in the URL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple
from urllib.parse import urlencode

from admin.pages.parts.tags import link, tag
from admin.pages.viewer import Viewer
from bus.domain.durations import parse_duration
from bus.domain.times import format_time
from bus.localized_text import N_

_ROUNDED: Final = 10_000


class Span(NamedTuple):
    """A span: how the URL names it, and its text."""

    name: str
    text: str

    def since(self, viewer: Viewer) -> str:
        """Return the beginning of the span that ends now, as the API takes it; the same for a few seconds."""
        begins = viewer.now() - parse_duration(self.name)
        return format_time(begins - begins % _ROUNDED)


SPANS: Final = (Span("1h", N_("Last hour")), Span("1d", N_("Last day")), Span("7d", N_("Last week")))


def span_of(viewer: Viewer, spans: Sequence[Span] = SPANS) -> Span:
    """Return the span that the URL names, the first one otherwise."""
    return next((span for span in spans if span.name == viewer.query.get("last")), spans[0])


def span_links(viewer: Viewer, path: str, spans: Sequence[Span] = SPANS) -> None:
    """Show the spans to choose from."""
    chosen = span_of(viewer, spans)
    with tag("nav", "pier-tabs", aria_label=viewer.t("Span of time")):
        for span in spans:
            query = urlencode({**viewer.query, "last": span.name})
            link(viewer.t(span.text), f"{path}?{query}", aria_current="true" if span == chosen else None)
