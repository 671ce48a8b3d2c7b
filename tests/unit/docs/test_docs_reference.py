"""The reference has all that the code has, and the pages that people write name it."""

from __future__ import annotations

import re

import pytest

from bus.domain.health.rulebook import RULES
from bus.settings import Settings
from docs.site import commands, decisions, endpoints, metrics, rules, settings
from docs.site.markdown import code, table
from tests.harness.process import ROOT

CONFIGURATION = (ROOT / "docs" / "configuration.md").read_text("utf-8")
# What has pages of its own: the table in configuration.md names the group.
GROUPS = re.compile(r"nsq_|oidc_")


def test_every_command_is_told_of_with_an_example() -> None:
    page = commands.page()
    for path, command in commands.leaves():
        section = page.split(f"\n## {path}\n")[1].split("\n## ")[0]
        assert commands.example(command.epilog or ""), f"{path} --help has no example"
        for option in command.params:
            assert option.opts[0] in section or option.param_type_name == "argument", (path, option.name)


def test_every_option_and_argument_says_what_it_is_for() -> None:
    silent = [(path, each.name) for path, command in commands.leaves() for each in command.params if not each.help]
    assert silent == []


def test_every_setting_says_what_it_is_for() -> None:
    told = {name: entry.meaning for entry in settings.entries() for name in entry.names}
    assert set(told) == set(Settings.model_fields)
    assert [name for name, meaning in told.items() if not meaning] == []
    page = settings.page()
    assert all(f"`{name}`" in page for name in Settings.model_fields)


def test_the_page_on_configuration_names_every_setting() -> None:
    missing = [name for name in Settings.model_fields if f"`{name}`" not in CONFIGURATION]
    told_elsewhere = (ROOT / "docs" / "nsq.md").read_text("utf-8")
    assert [name for name in missing if not (GROUPS.match(name) and f"`{name}`" in told_elsewhere)] == []


def test_every_operation_and_schema_is_told_of() -> None:
    page, whole = endpoints.page(), endpoints.document()
    assert [each.title for each in endpoints.operations(whole) if f"\n### {each.title}\n" not in page] == []
    anchors = set(re.findall(r'id="(schema-[a-z0-9-]+)"', page))
    assert {endpoints.anchor(name) for name in whole["components"]["schemas"]} == anchors
    assert set(re.findall(r"\(#(schema-[a-z0-9-]+)\)", page)) <= anchors


def test_every_metric_is_told_of() -> None:
    page = "\n".join(metrics.of_processes())
    for metric in metrics.own():
        (told,) = metric.describe()
        assert re.search(rf"\| `{told.name}(_total)?` \| {told.type} \|", page), told.name


def test_every_rule_is_told_of() -> None:
    page = rules.page()
    assert [name for name in RULES if f"[`{name}`]" not in page] == []


def test_every_decision_is_listed() -> None:
    assert len(list(decisions.records())) == len(list((ROOT / "docs" / "adr").glob("*.md")))
    assert "](0001-one-spool-behind-everything.md)" in decisions.page()


@pytest.mark.parametrize(
    ("epilog", "lines"),
    [
        ("", []),
        ("Example:  bus status --json", ["```sh", "bus status --json", "```", ""]),
        ("\b\nExamples:\n  bus a\n  bus b", ["```sh", "bus a", "bus b", "```", ""]),
    ],
)
def test_examples_are_what_stands_below_the_help(epilog: str, lines: list[str]) -> None:
    assert commands.example(epilog) == lines


def test_tables_keep_their_columns() -> None:
    assert table(("a", "b"), [["x|y", code("`z`")]])[2] == "| x&#124;y | `` `z` `` |"
