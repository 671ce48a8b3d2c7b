"""The MongoDB store does what the dictionaries do, whatever the order of calls, restarts and failed writes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import rule, run_state_machine_as_test

from bus.errors import StoreUnavailable
from tests.servers.mongodb_fixtures import database_url, drop, open_store
from tests.stateful.test_store_machine import StoreMachine, written


class MongodbMachine(StoreMachine):
    server: str
    url = ""

    def open(self) -> None:
        self.url = self.url or database_url(self.server)
        self.store = self.runner.run(open_store(self.url, gather=4))

    @rule(writes=written())
    def a_failed_commit_changes_no_document(self, writes: list) -> None:
        """Rows may be there already, as after a crash; so the writes are repeated, as the spool does."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("bus.stores.mongodb.merging.Merge.write", _fail)
            with pytest.raises(StoreUnavailable):
                self.runner.run(self.store.write(writes))
        self.same_documents()
        self.both("write", writes)

    def teardown(self) -> None:
        super().teardown()
        if self.url:
            drop(self.url)


async def _fail(_: object) -> None:
    raise StoreUnavailable("no primary")


def _run(server: str, examples: int, steps: int, **changes: Any) -> None:
    machine = type("MongodbMachine", (MongodbMachine,), {"server": server})
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large]
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=checks, **changes
        ),
    )


@pytest.mark.usefixtures("patient")
def test_the_mongodb_store_is_its_model(mongodb: str) -> None:
    _run(mongodb, 3, 12)


@pytest.mark.proof
@pytest.mark.timeout(1_800)
@pytest.mark.usefixtures("patient")
def test_the_mongodb_store_is_its_model_for_long(mongodb: str) -> None:
    _run(mongodb, 100, 40)
