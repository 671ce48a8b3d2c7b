"""The check of wording finds each kind of forbidden text, and lets no count rise."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.language.__main__ import falls, lowest, rises, written
from tests.language.counting import Rules, counted


def findings(tmp_path: Path, text: str, name: str = "module.py") -> list[tuple[int, str, str]]:
    path = tmp_path / name
    path.write_text(text, "utf-8")
    return [(one.line, one.kind, one.text) for one in Rules().findings(path)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('"""What is stored."""\n', [(1, "opening", "What")]),
        ('"""Stores messages."""\n', []),
        ('X = 1\n\n\ndef f():\n    """Return\n\n    what it has."""\n', [(7, "phrase", "what it has")]),
        ('X = f"the store is away: {1}"\n', [(1, "phrase", "is away")]),
        ('X = "told"\n', []),  # a key, no text
        ('"""Stores ``nobody`` and `told`."""\n', []),
        ('raise BusError(f"nobody took {1}")\n', [(1, "error", "nobody")]),
        ('x = StoreError(sentence("it is told"))\n', [(1, "error", "told")]),
        ('X = sentence("{told} is a field")\n', []),
        ("class Held:\n    pass\n", [(1, "class", "Held")]),
        ("class _Prepared:\n    pass\n", [(1, "class", "_Prepared")]),
        ("class HeldMessage:\n    pass\n", []),
        ("class Mapping:\n    pass\n", []),
        ("class Disconnected(StoreUnavailable):\n    pass\n", []),
    ],
)
def test_modules(tmp_path: Path, text: str, found: list[tuple[int, str, str]]) -> None:
    assert findings(tmp_path, text) == found


def test_pages(tmp_path: Path) -> None:
    text = "# Title\n\n```sh\nbus tells nobody\n```\n\nOne `lane`, and it [tells](told.md).\n"
    assert findings(tmp_path, text, "page.md") == [(7, "phrase", "tells")]


def test_counts_are_by_folder(tmp_path: Path) -> None:
    for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md"):
        (tmp_path / name).write_text("Plain.\n", "utf-8")
    for name in ("bus/spool/file.py", "bus/errors.py", "admin/app.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text('X = "nobody is here"\n', "utf-8")
    counts, found = counted(Rules(), tmp_path)
    assert {folder: count.total() for folder, count in counts.items() if count} == {
        "admin": 1,
        "bus/errors.py": 1,
        "bus/spool": 1,
    }
    assert [str(one.path) for one in found] == ["bus/errors.py", "bus/spool/file.py", "admin/app.py"]


def test_a_count_may_only_fall() -> None:
    allowed = {"a": {"phrase": 2}, "b": {"class": 1}, "gone": {"phrase": 1}}
    counts = {"a": {"phrase": 3}, "b": {"class": 0}, "new": {"error": 1}}
    assert [line.partition(":")[0] for line in rises(allowed, counts)] == ["a", "new"]
    assert [line.partition(":")[0] for line in falls(allowed, counts)] == ["b", "gone"]
    assert lowest(allowed, counts) == {"a": {"phrase": 2}}
    assert written({"a": {"phrase": 2}}).endswith('"a" = { phrase = 2 }\n')


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "bus/errors.py"])
def test_first_pages_and_errors_have_none(name: str) -> None:
    assert list(Rules().findings(Path(__file__).parents[3] / name)) == []
