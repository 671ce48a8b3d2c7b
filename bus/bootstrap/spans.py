"""The recorder and the exporter of a process's spans."""

from __future__ import annotations

from typing import NamedTuple

from bus.cluster.member import Member
from bus.domain.tracing.context import Sampler
from bus.domain.tracing.spans import Value
from bus.ports.clock import Clock
from bus.settings import Settings
from bus.spans.collector import HttpCollector, check_endpoint, parse_headers
from bus.spans.exporter import SpanExporter
from bus.spans.recorder import SpanRecorder


class SpanParts(NamedTuple):
    """What records spans, and what sends them."""

    recorder: SpanRecorder
    exporter: SpanExporter


def open_spans(settings: Settings, me: Member, clock: Clock) -> SpanParts | None:
    """Return what the settings ask for, None when they name no collector; nothing is sent before its ``run``.

    Raises
    ------
    ConfigurationError
        A setting is impossible.
    """
    if not settings.otel_endpoint:
        return None
    collector = HttpCollector(check_endpoint(settings.otel_endpoint), parse_headers(settings.otel_headers))
    recorder = SpanRecorder(Sampler(settings.otel_ratio), clock)
    return SpanParts(recorder, SpanExporter(recorder, collector, _resource(settings, me), me.version, clock))


def check_spans(settings: Settings) -> None:
    """Raise ``ConfigurationError`` for what ``open_spans`` would refuse; connects nowhere."""
    if settings.otel_endpoint:
        check_endpoint(settings.otel_endpoint)
        parse_headers(settings.otel_headers)


def _resource(settings: Settings, me: Member) -> dict[str, Value]:
    """Return who tells, by the names of OpenTelemetry's resources."""
    return {
        "service.name": settings.otel_service,
        "service.version": me.version,
        "service.instance.id": me.owner,
        "pier.node": me.node,
        "pier.roles": "+".join(me.roles),
        "telemetry.sdk.name": "pier",
        "telemetry.sdk.language": "python",
        "telemetry.sdk.version": me.version,
    }
