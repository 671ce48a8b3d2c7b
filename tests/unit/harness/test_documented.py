"""Examples of a page, and the output that it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.documented import Failed, Reader, fits, steps

PAGE = """\
Text.

```sh
not run
```

<!-- run -->
```sh
echo 019a2f4e-0000-7000-8000-000000000000
echo ID
```

<!-- prints -->
```text
11111111-2222-7333-8444-555555555555
...
```

<!-- terminal: bus $ bus up -->
<!-- run: exits 1 -->
```python
raise SystemExit(1)
```
"""


def test_only_what_is_marked_is_an_example() -> None:
    found = [(step.kind, step.how, step.language, step.line) for step in steps(PAGE)]
    assert found == [
        ("run", "", "sh", 7),
        ("prints", "", "text", 13),
        ("terminal", "bus", "sh", 19),
        ("run", "exits 1", "python", 20),
    ]
    assert steps(PAGE)[2].text == "bus up"


@pytest.mark.parametrize(
    ("expected", "output"),
    [
        ("sent 019a2f4e-0000-7000-8000-000000000000", "sent 019bffff-1111-7222-8333-444444444444\n"),
        ("a   b", "a b\n"),
        ("at 2026-01-02T03:04:05.678Z", "at 2027-11-12T13:14:15Z"),
        ("took 12 ms", "took 1.5 s"),
        ("a\n...\nd", "a\nb\nc\nd"),
        ("a\n...\nd", "a\nd"),
        ("a ... d", "a b c d"),
    ],
)
def test_what_varies_may_vary(expected: str, output: str) -> None:
    assert fits(expected, output)


@pytest.mark.parametrize(("expected", "output"), [("3 dead", "4 dead"), ("a", "a\nb"), ("a.c", "abc"), ("", "x")])
def test_all_else_may_not(expected: str, output: str) -> None:
    assert not fits(expected, output)


def read(page: str, folder: Path) -> int:
    with Reader(folder) as reader:
        return reader.read(page)


def test_examples_run_in_order_with_the_id_that_was_printed(tmp_path: Path) -> None:
    page = PAGE.replace("<!-- terminal: bus $ bus up -->\n", "") + "\n<!-- file: a/b.txt -->\n```text\nx\n```\n"
    assert (
        read(page + "\n<!-- run -->\n```sh\ngrep x a/b.txt\n```\n\n<!-- prints -->\n```text\nx\n```\n", tmp_path) == 6
    )


@pytest.mark.parametrize(
    ("page", "line"),
    [
        ("<!-- run -->\n```sh\nfalse\n```\n", "line 1: false"),
        ("\n<!-- run -->\n```sh\necho a\n```\n<!-- prints -->\n```text\nb\n```\n", "line 6: b"),
        ("<!-- run: exits 2 -->\n```sh\ntrue\n```\n", "exit 0, not 2"),
        ("<!-- run: any exit -->\n```sh\nexit 7\n```\n\n<!-- run -->\n```sh\nfalse\n```\n", "line 6: false"),
        ("<!-- terminal: x $ false -->\n", "it ended with 1"),
    ],
)
def test_an_example_that_does_something_else_fails_with_its_line(tmp_path: Path, page: str, line: str) -> None:
    with pytest.raises(Failed, match=line):
        read(page, tmp_path)


def test_a_terminal_is_used_again_after_its_end(tmp_path: Path) -> None:
    long = "python -c \"print('{}', flush=True); import time; time.sleep(60)\""
    page = f"<!-- terminal: t $ {long.format('one')} -->\n<!-- terminal: t $ {long.format('two')} -->\n"
    assert read(page + "<!-- prints: in t -->\n```text\ntwo\n```\n", tmp_path) == 3
