"""The name of a process, and the view that it keeps."""

from __future__ import annotations

from pathlib import Path

import pytest

from bus.bootstrap.identity import claim_name
from bus.cluster.saved_views import SavedViews, ViewsFile
from bus.domain.delivery.concurrency_shares import View


def test_a_restart_has_the_name_of_the_life_before(tmp_path: Path) -> None:
    names = []
    for _ in range(2):
        with claim_name(tmp_path, ["dispatcher"]) as name:
            names.append(name)
    assert names[0] == names[1]
    assert len(names[0]) == 32


def test_processes_of_one_directory_have_names_of_their_own(tmp_path: Path) -> None:
    with (
        claim_name(tmp_path, ["compensator"]) as first,
        claim_name(tmp_path, ["compensator"]) as second,
        claim_name(tmp_path, ["admin"]) as third,
    ):
        assert len({first, second, third}) == 3
    with claim_name(tmp_path, ["compensator"]) as again:
        assert again == first


@pytest.mark.parametrize("torn", [b"", b"abc", bytes(32), b"\xff" * 32])
def test_a_name_that_was_cut_off_by_a_power_cut_is_made_anew(tmp_path: Path, torn: bytes) -> None:
    with claim_name(tmp_path, ["admin"]):
        pass
    (tmp_path / "processes" / "admin-1" / "name").write_bytes(torn)
    with claim_name(tmp_path, ["admin"]) as name:
        assert len(name) == 32
    with claim_name(tmp_path, ["admin"]) as again:
        assert again == name


async def test_a_view_is_kept(tmp_path: Path) -> None:
    file, kept = ViewsFile(tmp_path / "permits.json"), SavedViews((View(("a", "b"), 3), View(("a",), 3)))
    assert file.read() == SavedViews(())
    await file.write(kept)
    assert ViewsFile(tmp_path / "permits.json").read() == kept
    (tmp_path / "permits.json").write_bytes(b'{"owners":["a","b"],"rotation":3}')
    assert file.read() == SavedViews((View(("a", "b"), 3),)), "a version before this one wrote it"
    (tmp_path / "permits.json").write_bytes(b'{"views": [')
    assert file.read() == SavedViews(())


async def test_a_view_that_cannot_be_kept_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "nowhere").touch()
    await ViewsFile(tmp_path / "nowhere" / "permits.json").write(SavedViews(()))
    assert "not kept on disk" in caplog.text
