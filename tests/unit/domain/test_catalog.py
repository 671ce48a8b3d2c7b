"""A changed configuration is the one that would be made anew, and says what has changed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bus.domain.catalog import Catalog
from bus.domain.destination import Destination
from bus.domain.subscription import Subscription

codes, names = st.sampled_from(["a", "b", "c"]), st.sampled_from(["x", "y"])
destinations = st.builds(Destination, code=codes, retention_days=st.integers(1, 2))
subscriptions = st.builds(
    Subscription,
    destination=codes,
    name=names,
    url=st.sampled_from(["u", "v"]),
    routing_pattern=st.sampled_from(["#", "eu.*"]),
)
removed = st.frozensets(st.sampled_from(["a", "b/x", "c/y", "d/z"]))
catalogs = st.builds(Catalog, st.lists(destinations), st.lists(subscriptions), removed)


def parts(catalog: Catalog) -> tuple[object, ...]:
    of = {code: {one.name: one for one in catalog.of(code)} for code in "abc"}
    expected = {(code, key): set(catalog.expected(code, key)) for code in "abc" for key in ("", "eu.shoes")}
    named = {code: set(catalog.names(code)) for code in "abc"}
    return catalog.destinations, catalog.subscriptions, catalog.removed, of, named, expected


@given(
    catalogs,
    st.lists(destinations, max_size=2),
    st.lists(subscriptions, max_size=3),
    st.sets(codes, max_size=1),
    st.sets(st.tuples(codes, names), max_size=2),
    st.none() | removed,
)
def test_a_change_gives_what_would_be_made_anew(before, made, subscribed, without, unsubscribed, gone) -> None:
    after = before.changed(
        destinations=made, subscriptions=subscribed, without=without, unsubscribed=unsubscribed, removed=gone
    )
    kept = {**before.destinations, **{one.code: one for one in made}}
    of = {**before.subscriptions, **{one.key: one for one in subscribed}}
    anew = Catalog(
        [one for code, one in kept.items() if code not in without],
        [one for key, one in of.items() if key not in unsubscribed],
        before.removed if gone is None else gone,
    )
    assert parts(after) == parts(anew)
    assert after.since(before) == anew.since(before)


@given(catalogs, catalogs)
def test_what_two_states_have_in_common_need_not_be_looked_at(before: Catalog, after: Catalog) -> None:
    found = after.since(before)
    for code in {"a", "b", "c"} - found.destinations:
        assert after.destinations.get(code) == before.destinations.get(code)
        assert after.of(code) == before.of(code)
    for key in after.subscriptions.keys() | before.subscriptions.keys():
        if key not in found.subscriptions:
            assert after.subscriptions.get(key) == before.subscriptions.get(key)
            assert after.destinations.get(key[0]) == before.destinations.get(key[0])
