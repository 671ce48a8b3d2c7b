"""Messages that were ticked are resent each on its own, and whoever looks is told which were not."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from admin.pages.api_error import ApiError
from admin.pages.calls import ChangeResponse
from admin.pages.finding import resending as resending_module
from admin.pages.finding.resending import MessageResender
from admin.pages.viewer import Viewer
from bus.domain.delivery.delivery import Status


class Api:
    """Makes a job for each request, or refuses what it is told to."""

    def __init__(self, refused: Mapping[str, ApiError]) -> None:
        self.asked: list[tuple[str, Mapping[str, Any]]] = []
        self._refused = refused

    async def post(self, path: str, body: Mapping[str, Any]) -> ChangeResponse:
        self.asked.append((path, body))
        if path in self._refused:
            raise self._refused[path]
        return ChangeResponse(msgspec.json.encode({"id": f"job-{len(self.asked)}", "subscriptions": []}))

    async def get(self, path: str, _kind: object, _query: object) -> Any:
        if path in self._refused:
            raise self._refused[path]
        name = path.rpartition("/")[2]
        states = {"mail": Status.DEAD, "erp": Status.RETRYING, "web": Status.DELIVERED}
        deliveries = [SimpleNamespace(subscription=one, status=status) for one, status in states.items()]
        return SimpleNamespace(destination=name[:1], deliveries=deliveries)


def resending(api: Api) -> MessageResender:
    return MessageResender(cast("Viewer", SimpleNamespace(api=api, t=str)), "why")


async def test_one_that_is_refused_takes_nothing_from_the_others() -> None:
    gone = ApiError(404, "there is no such message")
    api = Api({"/messages/b/resend": gone})
    found = resending(api)
    await found.all(["a", "b", "c"])
    assert [name for name, _ in found.jobs] == ["a", "c"]
    assert found.refused == [("b", gone)]
    assert {body["reason"] for _, body in api.asked} == {"why"}


async def test_one_that_is_gone_takes_nothing_from_the_others() -> None:
    gone = ApiError(404, "there is no such message")
    found = resending(Api({"/messages/a1": gone}))
    await found.failed(["a1", "a2"])
    assert [name for name, _ in found.jobs] == ["a"]
    assert found.refused == [("a1", gone)]


async def test_once_the_api_fails_the_rest_are_told_and_not_tried() -> None:
    away = ApiError(503, "the store is away")
    api = Api({"/messages/b/resend": away})
    found = resending(api)
    await found.all(["a", "b", "c", "d"])
    assert [name for name, _ in found.jobs] == ["a"]
    assert found.refused == [("b", away), ("c", away), ("d", away)]
    assert len(api.asked) == 2


async def test_whose_session_has_ended_logs_in() -> None:
    with pytest.raises(ApiError):
        await resending(Api({"/messages/a/resend": ApiError(401, "the session has ended")})).all(["a"])


async def test_what_fails_is_resent_by_destination_however_many_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resending_module, "_MOST", 3)
    api = Api({})
    found = resending(api)
    await found.failed(["a1", "a2", "b1"])
    assert [name for name, _ in found.jobs] == ["a", "a", "b"]
    sent = [(one["id"], one["subscription"]) for _, body in api.asked for one in body["deliveries"]]
    assert sent == [(id_, name) for id_ in ("a1", "a2", "b1") for name in ("mail", "erp")]
