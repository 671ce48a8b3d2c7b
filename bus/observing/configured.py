"""The rules and channels of alarms as the settings have them."""

from __future__ import annotations

from datetime import time
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from bus.domain.durations import parse_duration
from bus.domain.health.alarm import Severity
from bus.domain.health.channels import Channel, QuietHours
from bus.domain.health.rulebook import RULES, TIMES, Change, Rulebook
from bus.errors import ConfigurationError
from bus.localized_text import localized, text_of_error
from bus.settings import AlarmChannel, AlarmRule, Settings

_SEE: Final = localized("see docs/alarms.md")


def rulebook_of(settings: Settings) -> Rulebook:
    """Return the rules in force; raises ``ConfigurationError`` for a rule that is not there, or a bad value."""
    for name in settings.alarm_rules:
        if name not in RULES:
            raise ConfigurationError(
                localized("there is no rule of alarms {name}; there are: {names}", name=name, names=", ".join(RULES)),
                hint=_SEE,
            )
    return Rulebook({name: _change(name, rule) for name, rule in settings.alarm_rules.items()})


def channels_of(settings: Settings) -> list[Channel]:
    """Return who is told of alarms; raises ``ConfigurationError`` for a value that cannot be used."""
    return [_channel(name, channel) for name, channel in settings.alarm_channels.items()]


def _change(name: str, rule: AlarmRule) -> Change:
    where = f"alarm_rules.{name}"
    return Change(
        hold=_optional(f"{where}.hold", rule.hold),
        clear=_optional(f"{where}.clear", rule.clear),
        limit=_limit(f"{where}.limit", name, rule.limit),
        severity=Severity(rule.severity) if rule.severity is not None else None,
        off=rule.off,
    )


def _limit(key: str, rule: str, limit: float | str | None) -> float | None:
    if limit is None:
        return None
    if rule in TIMES:
        if not isinstance(limit, str):
            raise ConfigurationError(localized('{key}: a time such as "15m"', key=key), hint=_SEE)
        return _duration(key, limit)
    if isinstance(limit, str):
        raise ConfigurationError(localized("{key}: a number", key=key), hint=_SEE)
    return limit


def _channel(name: str, channel: AlarmChannel) -> Channel:
    where = f"alarm_channels.{name}"
    return Channel(
        name=name,
        url=channel.url,
        least=Severity(channel.severity),
        after=_optional(f"{where}.after", channel.after) or 0,
        quiet=_quiet(where, channel) if channel.quiet else None,
        owners=tuple(channel.owners),
        repeat=_optional(f"{where}.repeat", channel.repeat) or 0,
        heartbeat=_optional(f"{where}.heartbeat", channel.heartbeat) or 0,
    )


def _quiet(where: str, channel: AlarmChannel) -> QuietHours:
    since, _, until = channel.quiet.partition("-")
    try:
        zone = ZoneInfo(channel.timezone)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise ConfigurationError(
            localized("{key}: there is no time zone {name}", key=f"{where}.timezone", name=repr(channel.timezone)),
            hint=_SEE,
        ) from error
    return QuietHours(time.fromisoformat(since), time.fromisoformat(until), zone)


def _optional(key: str, text: str) -> int | None:
    return _duration(key, text) if text else None


def _duration(key: str, text: str) -> int:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise ConfigurationError(localized("{key}: {error}", key=key, error=text_of_error(error)), hint=_SEE) from error
