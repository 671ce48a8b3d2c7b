import re

import msgspec
import pytest

from pipeline.commands.repairing import RepairBalance
from pipeline.reports.proof import render
from pipeline.reports.summary import HOPS, STATES, Bar, Finding, Gap, Summary, sentence_of, verdict_of

LOST = Finding(
    id="019aa4b6-44fb-7408-8ebf-8662fce18574",
    destination="orders",
    subscription="<shop>",
    hop="deliver",
    minute="2026-01-31T12:00:00.000Z",
    state="provisional",
    last_at="2026-01-31T12:00:01.000Z",
    last_stage="settled",
    last_status="retrying",
    last_reason="HTTP 503",
    store_status="retrying",
    attempt_n=2,
    attempt_code=503,
)


def hop(**counts: int) -> dict:
    return {"states": {"final": 3, "open": 1}, "verdicts": {"proven": 3}, "buckets": 4, "expected": 100, **counts}


def summary(**fields) -> Summary:
    given = {
        "verdict": "proven",
        "checked": "2026-01-31T13:00:00.000Z",
        "watermark": "2026-01-31T12:59:58.000Z",
        "with_store": True,
        "emitters": 3,
        "news": 4,
        "hops": {name: hop() for name in HOPS},
        "gaps": [],
        "lost_blocks": 2,
        "lost_events": 7,
        "missing": [],
        "contradicted": [],
        "bars": [Bar("2026-01-31T12:00:00.000Z", dict.fromkeys(STATES, 2), 0)],
    }
    return Summary(**{**given, **fields})


def test_the_verdict_is_one_sentence():
    assert sentence_of(summary()) == "zero lost: each of 100 expected deliveries in 3 judged buckets is accounted for"
    waiting = summary(hops={"deliver": hop(under_way=2, held=1)})
    assert sentence_of(waiting).endswith("is accounted for; 3 are on their way or held")
    refused = msgspec.structs.replace(LOST, subscription="", hop="accept")
    hops = {"accept": hop(missing=1), "deliver": hop(missing=1)}
    lost = summary(verdict="missing", missing=[LOST, refused], hops=hops)
    assert sentence_of(lost) == "1 deliveries are missing, and 1 messages that no receiver accepted"
    assert sentence_of(summary(verdict="unheard")).startswith("nothing can be judged yet")
    against = summary(verdict="contradicted", contradicted=[LOST])
    assert sentence_of(against) == "events contain the end of 1 deliveries, and the store contradicts them"
    assert sentence_of(msgspec.structs.replace(against, verdict="missing", missing=[LOST])).count("1 deliveries") == 2


def test_the_sentence_says_what_the_store_alone_knows_and_what_cannot_be_judged():
    unkept = msgspec.structs.replace(LOST, subscription="", hop="publish")
    lost = summary(verdict="missing", missing=[unkept], hops={"publish": hop(missing=1)})
    assert sentence_of(lost).endswith("and 1 messages without a subscription that the store does not have")
    half = msgspec.structs.replace(unkept, finding="store_behind")
    against = summary(verdict="contradicted", contradicted=[half], hops={"publish": hop(store_behind=1)})
    assert sentence_of(against) == "of 1 accepted messages the store has no more than outcomes"
    hops = {"accept": hop(held=4), "publish": hop(event_lost=2), "deliver": hop(event_lost=3)}
    told = sentence_of(summary(verdict="explained", hops=hops))
    assert "4 messages were sent, and no receiver accepted them yet; 3 have an end that is in the store alone" in told
    assert "2 messages are in the store without an event of their acceptance" in told
    gaps = [Gap(f"e{number}", "receiver", "host-1", None, "2026-01-31T12:00:00.000Z", 1, 0) for number in range(5)]
    unsettled = sentence_of(summary(verdict="unsettled", gaps=gaps))
    assert unsettled.startswith("nothing is known to be lost: each of 100")
    assert unsettled.endswith("e2 on host-1 between its start and 2026-01-31T12:00:00.000Z and 2 more")


def bucket(verdict: str, kind: str = "deliver", *, state: str = "final", event_lost: int = 0) -> dict:
    return {"hop": kind, "state": state, "verdict": verdict, "event_lost": event_lost}


@pytest.mark.parametrize(
    ("buckets", "role", "verdict"),
    [
        ([bucket("proven")], "", "proven"),
        ([], "receiver", "unheard"),
        ([bucket("unsettled", state="open")], "", "unheard"),
        ([bucket("proven"), bucket("unsettled", state="open")], "", "proven"),
        ([bucket("proven"), bucket("explained")], "", "explained"),
        ([bucket("proven"), bucket("explained", "publish")], "", "proven"),
        ([bucket("proven"), bucket("explained", "publish", event_lost=1)], "", "explained"),
        ([bucket("explained"), bucket("unsettled", "accept")], "", "unsettled"),
        ([bucket("proven")], "receiver+dispatcher", "unsettled"),
        ([bucket("proven")], "producer", "unsettled"),
        ([bucket("proven")], "dispatcher+compensator", "proven"),
        ([bucket("contradicted"), bucket("unsettled")], "receiver", "contradicted"),
        ([bucket("contradicted", "publish"), bucket("missing")], "receiver", "missing"),
    ],
)
def test_the_verdict_is_that_of_the_worst_bucket_that_could_be_judged(buckets, role, verdict):
    gaps = [Gap("e1", role, "host-1", None, "2026-01-31T12:00:00.000Z", 1, 0)] if role else []
    assert verdict_of(buckets, gaps) == verdict


def test_a_missing_delivery_is_told_with_its_last_trace():
    assert LOST.last_word == "settled retrying HTTP 503 at 2026-01-31T12:00:01.000Z"
    assert LOST.stored == "retrying, attempt 2: 503"
    bare = Finding("i", "orders", "shop", "deliver", "m", "final")
    assert (bare.last_word, bare.stored) == ("no event tells of it", "–")


def test_the_report_stands_alone_and_trusts_no_text():
    bars = [Bar(f"2026-01-31T{hour:02}:00:00.000Z", dict.fromkeys(STATES, hour), hour % 2) for hour in range(24)]
    gap = Gap("e1", "receiver", "host-1", None, "2026-01-31T12:00:00.000Z", 2, 7)
    page = render(summary(verdict="missing", missing=[LOST], gaps=[gap], bars=bars))
    assert not re.search(r"https?:|<script|<link|src=|url\(", page)
    assert "<shop>" not in page
    assert "&lt;shop&gt;" in page
    assert (page.count("<circle"), page.count("<rect")) == (12, 23 * 4)
    assert "its start" in page
    assert "Ends that the store contradicts: 1" in render(summary(verdict="contradicted", contradicted=[LOST]))


def test_the_report_of_nothing_is_whole():
    hops = {name: {"states": {}, "verdicts": {}} for name in HOPS}
    page = render(summary(verdict="unheard", watermark=None, bars=[], hops=hops))
    assert "no emitter was heard" in page
    assert page.endswith("</html>\n")


@pytest.mark.parametrize(
    ("counts", "unaccepted", "whole"),
    [
        ({"selected": 3, "delivered": 2, "skipped": 1}, 0, True),
        ({"selected": 3, "delivered": 2, "missing": 1}, 0, False),
        ({"selected": 3, "delivered": 3}, 1, False),
    ],
)
def test_a_repair_is_whole_when_all_that_was_missing_is_delivered(counts, unaccepted, whole):
    assert RepairBalance(["j"], counts, unaccepted).is_whole is whole


def test_a_message_that_the_store_lost_cannot_be_repaired():
    repaired = RepairBalance(["j"], {"selected": 1, "delivered": 1}, 0, unkept=2)
    assert not repaired.is_whole
    assert "2 messages without a subscription cannot be repaired" in repaired.sentence
