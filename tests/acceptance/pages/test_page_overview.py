"""The overview and the page of health follow the bus."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.acceptance.pages.conftest import Look
from tests.harness.bus_process import BusProcess
from tests.harness.process import free_port
from tests.harness.subscribers import SubscriberProcess


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BusProcess]:
    """Run a bus with nothing in it, until somebody asks for it ``crowded``."""
    with BusProcess(tmp_path_factory.mktemp("overview") / "data") as bus:
        yield bus


@pytest.fixture(scope="module")
def crowded(empty: BusProcess) -> BusProcess:
    """Have one destination more than the overview shows."""
    for number in range(51):
        empty.admin.destination(f"of.many{number:02}")
    return empty


def test_an_empty_bus_says_how_to_begin(look: Look, empty: BusProcess) -> None:
    page = look(empty).open()
    expect(page.get_by_text("Nothing flows yet")).to_be_visible()
    page.get_by_role("link", name="Make a destination").click()
    expect(page.locator("h1")).to_have_text("New destination")


def test_it_follows_the_bus_until_it_is_paused_and_rows_stay_where_they_are(
    look: Look, open_bus: BusProcess, subscribers: SubscriberProcess
) -> None:
    for code in ("page.over1", "page.over2"):
        open_bus.admin.destination(code)
        open_bus.admin.subscription(code, "mail", subscribers.url(f"/{code}"))
    looker = look()
    page = looker.open()
    rows = page.get_by_role("region", name="Destinations").get_by_role("row")
    before = [row.get_by_role("link").first.inner_text() for row in rows.all()[1:]]
    for number in range(30):
        open_bus.admin.send("page.over2", b"%d" % number).raise_for_status()
    expect(page.locator(".pier-figure").filter(has_text="delivered a second")).not_to_have_text("delivered a second0")
    assert [row.get_by_role("link").first.inner_text() for row in rows.all()[1:]] == before
    page.get_by_role("button", name="Pause updates").click()
    expect(page.get_by_role("button", name="Go on updating")).to_be_visible()


def test_a_link_in_a_row_keeps_the_keyboard_s_focus_while_its_figures_change(look: Look, crowded: BusProcess) -> None:
    page = look(crowded).open()
    row = page.get_by_role("region", name="Destinations").get_by_role("row").filter(has_text="of.many00")
    page.keyboard.press("j")
    expect(row.get_by_role("link")).to_be_focused()
    before = row.inner_text()
    crowded.admin.send("of.many00", b"1").raise_for_status()
    expect(row).not_to_have_text(before, use_inner_text=True)
    expect(row.get_by_role("link")).to_be_focused(timeout=100)


def test_a_destination_that_is_not_shown_is_counted_and_one_that_is_gone_has_no_figures(
    look: Look, crowded: BusProcess
) -> None:
    page = look(crowded).open()
    table = page.get_by_role("region", name="Destinations")
    expect(table.get_by_role("link", name="and 1 more")).to_have_attribute("href", "/admin/destinations")
    gone = table.get_by_role("row").filter(has_text="of.many07")
    expect(gone).to_contain_text("nobody takes from it")
    crowded.admin.call("DELETE", "/api/v1/destinations/of.many07").raise_for_status()
    expect(gone).not_to_contain_text("nobody takes from it")
    expect(gone).to_contain_text("–")
    expect(table.get_by_role("link", name="1 more: show them")).to_be_visible()
    expect(table.get_by_role("link", name="and 1 more")).to_have_count(0)


def test_what_needs_a_person_is_on_top_with_the_next_step(look: Look, crowded: BusProcess) -> None:
    crowded.admin.destination("page.away")
    crowded.admin.subscription("page.away", "gone", "http://127.0.0.1:9/x")
    for number in range(8):
        crowded.admin.send("page.away", b"%d" % number).raise_for_status()
    looker = look(crowded)
    page = looker.open()
    alarm = page.get_by_role("region", name="Alarms").get_by_text("gone of page.away")
    expect(alarm).to_be_visible()
    expect(page.get_by_role("region", name="Open breakers").get_by_text("page.away / gone")).to_be_visible()
    alarm.click()
    expect(page).not_to_have_url(f"{looker.url}/admin/")


def test_health_lists_processes_spools_and_due_work(look: Look) -> None:
    looker = look()
    page = looker.open("/health")
    processes = page.get_by_role("region", name="Processes").get_by_role("row")
    expect(processes).to_have_count(2)
    expect(processes.nth(1)).to_contain_text("dispatcher, receiver, compensator, admin")
    expect(page.get_by_role("region", name="Spools", exact=True).get_by_text("outcomes")).to_be_visible()
    expect(page.get_by_text("Nobody looks for them")).to_be_visible()
    page.get_by_label("Receivers").fill("500")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("In force at once.")).to_be_visible()
    looker.open("/health")
    expect(page.get_by_label("Receivers")).to_have_value("500")
    page.get_by_label("Receivers").fill("")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("In force at once.")).to_be_visible()


def test_a_sample_shows_the_exact_request_and_its_answer(
    look: Look, open_bus: BusProcess, subscribers: SubscriberProcess
) -> None:
    open_bus.admin.destination("page.sample")
    open_bus.admin.subscription("page.sample", "mail", subscribers.url("/sample"), secret="auto")
    looker = look()
    page = looker.open("/destinations/page.sample/subscriptions/mail")
    part = page.get_by_role("region", name="Send a sample")
    part.get_by_label("Body, JSON").fill("{nonsense")
    part.get_by_role("button", name="Send it").click()
    expect(part.get_by_text("This is not JSON")).to_be_visible()
    part.get_by_label("Body, JSON").fill('{"hello": "<script>alert(1)</script>"}')
    part.get_by_role("button", name="Send it").click()
    expect(part.get_by_text("answered 200")).to_be_visible()
    expect(part.get_by_text("webhook-signature")).to_be_visible()
    expect(part.get_by_text("<script>alert(1)</script>")).to_be_visible()
    assert subscribers.count("/sample") == 1
    subscribers.configure("/sample=fail:1,status:503")
    part.get_by_role("button", name="Send it").click()
    expect(part.get_by_text("answered 503")).to_be_visible()


@pytest.mark.parametrize(
    ("width", "language", "dark"),
    [
        (1280, "en", False),
        pytest.param(390, "zh", True, marks=pytest.mark.proof),
        pytest.param(390, "zh", False, marks=pytest.mark.proof),
        pytest.param(1280, "en", True, marks=pytest.mark.proof),
    ],
)
def test_they_are_accessible_and_fit(look: Look, width: int, language: str, dark: bool) -> None:
    looker = look(width=width, language=language, dark=dark)
    for path in ("/", "/health"):
        looker.open(path)
        assert not looker.findings(), path
        assert not looker.is_too_wide(), path


def test_what_has_one_cause_is_one_entry_until_it_is_unfolded(look: Look, crowded: BusProcess) -> None:
    admin, url = crowded.admin, f"http://127.0.0.1:{free_port()}/x"
    admin.destination("page.cause")
    for name in ("first", "second"):
        admin.subscription("page.cause", name, url, retry=["1s"])
    for _ in range(20):
        admin.send("page.cause", b"1").raise_for_status()
    looker = look(crowded)
    page = looker.open()
    entry = page.locator(".pier-alarms li").filter(has_text="page.cause")
    expect(entry).to_have_count(1, timeout=30_000)
    entry.get_by_role("button", name="more from this cause").click()
    expect(entry.nth(1)).to_be_visible()
    expect(page.get_by_role("button", name="more from this cause")).to_be_hidden()
    assert not looker.findings()
