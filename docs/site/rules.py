"""The reference of the alarms' rules, from the rulebook and from what Prometheus is given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from bus.domain.durations import format_duration
from bus.domain.health.rulebook import RULES, Rule
from bus.domain.times import MINUTE
from deploy.prometheus.rules import document
from docs.site.markdown import code, table

_HEAD: Final = """\
# Rules of alarms

Written from the code. A condition must last for `hold` before anybody is told, and be gone for `clear` before it is
over. `bus alarms rules` prints the rules as they are in force in an installation, `alarm_rules` changes them:
[Alarms](../alarms.md), which also tells what to do about each.

"""
_QUERIES: Final = """\
## As queries of Prometheus

Those that metrics can tell of are rules of Prometheus too: `deploy/prometheus/alerts.yml`.

"""


def page() -> str:
    """Return the page."""
    rules = table(("rule", "is found when", "hold", "clear", "limit"), map(_row, RULES, RULES.values()))
    queries = table(("rule", "severity", "for", "query"), _queries())
    return "\n".join([_HEAD, *rules, _QUERIES, *queries])


def _row(name: str, rule: Rule) -> list[str]:
    return [f"[{code(name)}](../alarms.md#{name})", rule.says, _time(rule.hold), _time(rule.clear), _limit(rule)]


def _time(milliseconds: int) -> str:
    return format_duration(milliseconds) if milliseconds else "at once"


def _limit(rule: Rule) -> str:
    if rule.limit is None:
        return ""
    return _time(int(rule.limit)) if rule.limit >= MINUTE else f"{rule.limit:,g}"


def _queries() -> Iterator[list[str]]:
    for group in document()["groups"]:
        for each in group["rules"]:
            yield [code(each["alert"]), _severity(each), each["for"], code(each["expr"])]


def _severity(each: dict[str, Any]) -> str:
    severity: str = each["labels"]["severity"]
    return "the alarm's" if "$labels" in severity else severity
