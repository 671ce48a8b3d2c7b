"""The last proof: its verdict, its sums, its buckets over time, and its findings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nicegui import ui

from admin.pages.parts.charts import COLOURS, Options, framed
from admin.pages.parts.figures import count, figures
from admin.pages.parts.notes import note
from admin.pages.parts.pipeline import VERDICTS
from admin.pages.parts.tables import Column, badge, moment, number, place, table, text
from admin.pages.parts.tags import tag
from admin.pages.viewer import Viewer
from bus.domain.pipelines import Bar, Gap, Hop, MissingDelivery, ProofReport, Verdict
from bus.localized_text import N_

_HEIGHT: Final = "230px"
_SENTENCES: Final = {
    Verdict.PROVEN: N_("Nothing is lost: each expected delivery is accounted for"),
    Verdict.EXPLAINED: N_("Nothing is lost, but some of it is in the store alone, without events"),
    Verdict.UNSETTLED: N_("Nothing is known to be lost, but not everything can be judged"),
    Verdict.MISSING: N_("Deliveries are missing"),
    Verdict.CONTRADICTED: N_("Nothing is missing, but the store contradicts what events tell"),
    Verdict.UNHEARD: N_("Nothing can be judged yet: messages are too young, or no process was heard since"),
}
_HOPS: Final = {
    "accept": N_("sent to accepted"),
    "publish": N_("accepted to published"),
    "deliver": N_("expected to settled"),
}
_STATES: Final = {
    "open": (N_("too young"), "wait"),
    "provisional": (N_("provisional"), "warn"),
    "final": (N_("final"), "good"),
    "amended": (N_("amended"), "in"),
}
_KINDS: Final = {
    "proven": N_("proven"),
    "explained": N_("explained"),
    "unsettled": N_("unsettled"),
    "contradicted": N_("contradicted"),
    "missing": N_("missing"),
}
_OF_MESSAGES: Final = {"accept": N_("no receiver accepted it"), "publish": N_("none; the store lost the message")}
_FINDINGS: Final = {"missing": N_("missing"), "store_behind": N_("the store is behind")}


def head(viewer: Viewer, proof: ProofReport) -> ui.element:
    """Show the verdict and the sums; return the note, to add to."""
    t = viewer.t
    tone = VERDICTS[proof.verdict].tone
    witnesses = t("events, ledger and store") if proof.with_store else t("events and ledger")
    heard = viewer.near(proof.watermark) or "–"
    said = t(
        "Checked {time} from {witnesses}; all live processes were heard up to {heard}.",
        time=viewer.near(proof.checked),
        witnesses=witnesses,
        heard=heard,
    )
    made = note(t(_SENTENCES[proof.verdict]), said, tone="" if tone == "wait" else tone)
    deliver = next((hop for hop in proof.hops if hop.hop == "deliver"), None)
    figures(
        [
            (t("Expected"), count(deliver.expected if deliver is not None else 0), t("deliveries")),
            (t("Missing"), count(proof.missing), ""),
            (t("Contradicted"), count(proof.contradicted), ""),
            (t("On their way"), count(proof.on_their_way), t("or held")),
            (t("Processes heard"), count(proof.emitters), ""),
        ]
    )
    return made


def body(viewer: Viewer, proof: ProofReport) -> None:
    """Show the evidence of the verdict: buckets over time, hops, findings, and events that were not reported."""
    _buckets(viewer, proof.bars)
    _hops(viewer, proof.hops)
    _found(viewer, proof)
    _gaps(viewer, proof)


def _buckets(viewer: Viewer, bars: Sequence[Bar]) -> None:
    t = viewer.t
    title = t("Buckets over time, by state")
    with tag("section", "pier-card", aria_label=title):
        tag("h2", "", title)
        tag("p", "pier-quiet", t("A bucket is a hop, a destination, a subscription and a minute."))
        if not bars:
            tag("p", "", t("There are none in this range."))
            return
        chart = ui.echart(_options(viewer, bars), renderer="svg").style(f"height: {_HEIGHT}")
        chart.props["role"] = "img"
        chart.props["aria-label"] = title
        with tag("details", "pier-more"):
            tag("summary", "", t("By time, as a list"))
            with tag("ul", "pier-list"):
                for bar in bars:
                    tag("li", "", f"{viewer.time(bar.start)} {_in_words(viewer, bar)}")


def _in_words(viewer: Viewer, bar: Bar) -> str:
    states = [f"{viewer.t(_STATES[name][0])} {count(bar.states[name])}" for name in _STATES if bar.states.get(name)]
    return ", ".join([*states, *([f"{viewer.t('missing')} {count(bar.missing)}"] if bar.missing else [])])


def _options(viewer: Viewer, bars: Sequence[Bar]) -> Options:
    stacked = [
        _series(viewer.t(said), COLOURS[colour], [bar.states.get(name, 0) for bar in bars], stack="buckets")
        for name, (said, colour) in _STATES.items()
    ]
    missing = _series(viewer.t("missing"), COLOURS["bad"], [bar.missing for bar in bars], stack="missing")
    return framed([viewer.near(bar.start).removesuffix(":00") for bar in bars], [*stacked, missing])


def _series(name: str, colour: str, data: list[int], *, stack: str) -> Options:
    return {"name": name, "type": "bar", "stack": stack, "barMaxWidth": 36, "color": colour, "data": data}


def _hops(viewer: Viewer, hops: Sequence[Hop]) -> None:
    t = viewer.t
    with tag("section", "pier-card", aria_label=t("Hops")):
        tag("h2", "", t("Hops"))
        columns = [Column("hop", t("Hop")), Column("expected", t("Expected"), is_number=True)]
        columns += [Column("buckets", t("Buckets"), is_number=True)]
        columns += [Column(name, t(said), is_number=True) for name, said in _KINDS.items()]
        rows = [
            {
                "key": hop.hop,
                "hop": text(t(_HOPS[hop.hop])),
                "expected": number(count(hop.expected)),
                "buckets": number(count(hop.buckets)),
                **{name: number(count(hop.verdicts.get(name, 0))) for name in _KINDS},
            }
            for hop in hops
            if hop.buckets
        ]
        table(columns, rows, label=t("Hops"))


def _found(viewer: Viewer, proof: ProofReport) -> None:
    t = viewer.t
    if not proof.found:
        return
    title = t("What was found")
    with tag("section", "pier-card", aria_label=title):
        tag("h2", "", title)
        left = proof.missing + proof.contradicted - len(proof.found)
        if left > 0:
            tag("p", "pier-quiet", t("{count} more are in the table findings of the lake.", count=count(left)))
        columns = [
            Column("message", t("Message")),
            Column("destination", t("Destination")),
            Column("subscription", t("Subscription")),
            Column("finding", t("Finding")),
            Column("event", t("Last event")),
            Column("stored", t("In the store")),
        ]
        table(columns, [_finding(viewer, each) for each in proof.found], label=title).classes("pier-decided")


def _finding(viewer: Viewer, each: MissingDelivery) -> dict[str, object]:
    t = viewer.t
    return {
        "key": f"{each.id}/{each.subscription}",
        "message": place(each.id, f"/admin/messages/{each.id}", mono=True),
        "destination": place(each.destination, f"/admin/destinations/{each.destination}"),
        "subscription": text(each.subscription or t(_OF_MESSAGES.get(each.hop, "–"))),
        "finding": badge(t(_FINDINGS.get(each.finding, N_("missing"))), "bad"),
        "event": text(each.last_event or t("no event tells of it"), cut=True),
        "stored": text(each.stored or "–", cut=True),
    }


def _gaps(viewer: Viewer, proof: ProofReport) -> None:
    t = viewer.t
    if not proof.gaps:
        return
    title = t("What processes could not tell")
    with tag("section", "pier-card", aria_label=title):
        tag("h2", "", title)
        said = t(
            "{blocks} blocks of events never arrived, and {events} events were dropped.",
            blocks=count(proof.lost_blocks),
            events=count(proof.lost_events),
        )
        tag("p", "pier-quiet", said)
        columns = [
            Column("node", t("Process")),
            Column("after", t("After")),
            Column("until", t("Until")),
            Column("blocks", t("Blocks"), is_number=True),
            Column("events", t("Events"), is_number=True),
        ]
        table(columns, [_gap(viewer, place_, gap) for place_, gap in enumerate(proof.gaps)], label=title)


def _gap(viewer: Viewer, key: int, gap: Gap) -> dict[str, object]:
    return {
        "key": str(key),
        "node": text(gap.node, title=gap.emitter),
        "after": moment(viewer, gap.after) if gap.after else text(viewer.t("its start")),
        "until": moment(viewer, gap.until) if gap.until else text(viewer.t("did not end in order")),
        "blocks": number(count(gap.blocks)),
        "events": number(count(gap.events)),
    }
