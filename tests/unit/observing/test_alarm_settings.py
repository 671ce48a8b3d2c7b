"""The rules and channels of alarms as people write them in ``bus.toml``."""

from __future__ import annotations

from datetime import time
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from bus.domain.health.alarm import Severity
from bus.domain.health.channels import Channel, QuietHours
from bus.domain.times import HOUR, MINUTE
from bus.errors import ConfigurationError
from bus.observing.configured import channels_of, rulebook_of
from bus.settings import Settings, load_settings


def written(path: Path, text: str) -> Settings:
    (path / "bus.toml").write_text(text)
    return load_settings(path / "bus.toml", {})


def test_channels_and_rules_are_read(tmp_path: Path) -> None:
    settings = written(
        tmp_path,
        """
        [alarm_channels.ops]
        url = "slack://a/b/c"
        quiet = "22:00-07:00"
        timezone = "Asia/Shanghai"
        repeat = "4h"
        [alarm_channels.boss]
        url = "mailto://x"
        severity = "critical"
        after = "15m"
        owners = ["shop"]
        [alarm_channels.alive]
        url = "json://x"
        heartbeat = "1m"
        [alarm_rules.backlog]
        limit = 5
        hold = "10m"
        [alarm_rules.age]
        limit = "1h"
        severity = "critical"
        [alarm_rules.dead]
        off = true
        """,
    )
    quiet = QuietHours(time(22), time(7), ZoneInfo("Asia/Shanghai"))
    assert channels_of(settings) == [
        Channel("ops", "slack://a/b/c", quiet=quiet, repeat=4 * HOUR),
        Channel("boss", "mailto://x", Severity.CRITICAL, after=15 * MINUTE, owners=("shop",)),
        Channel("alive", "json://x", heartbeat=MINUTE),
    ]
    book = rulebook_of(settings)
    assert (book["backlog"].limit, book["backlog"].hold) == (5, 10 * MINUTE)
    assert (book["age"].limit, book.change("age").severity) == (HOUR, Severity.CRITICAL)
    assert book.change("dead").off


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[alarm_rules.backlog]\nlimit = "30m"', "alarm_rules.backlog.limit: a number"),
        ("[alarm_rules.age]\nlimit = 15", "alarm_rules.age.limit: a time"),
        ("[alarm_rules.backlogs]\nlimit = 5", "backlogs"),
        ('[alarm_rules.backlog]\nhold = "soon"', "alarm_rules.backlog.hold"),
        ('[alarm_rules.age]\nlimit = "old"', "alarm_rules.age.limit"),
        ('[alarm_channels.ops]\nurl = "x://"\nafter = "soon"', "alarm_channels.ops.after"),
        ('[alarm_channels.ops]\nurl = "x://"\nquiet = "22:00-07:00"\ntimezone = "Mars"', "alarm_channels.ops.timezone"),
    ],
)
def test_what_cannot_be_used_says_where(tmp_path: Path, text: str, said: str) -> None:
    settings = written(tmp_path, text)
    with pytest.raises(ConfigurationError, match=said):
        (rulebook_of if "alarm_rules" in text else channels_of)(settings)


@pytest.mark.parametrize(
    "text",
    [
        '[alarm_channels.ops]\nurl = ""',
        '[alarm_channels.ops]\nurl = "x://"\nquiet = "22-7"',
        '[alarm_channels.ops]\nurl = "x://"\nseverity = "bad"',
        '[alarm_channels.ops]\nurls = "x://"',
        '[alarm_channels.OPS]\nurl = "x://"',
        "[alarm_rules.backlog]\nlimits = 5",
    ],
)
def test_what_is_impossible_stops_the_start(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigurationError, match="alarm_"):
        written(tmp_path, text)
