"""A report says what it was measured on, and its tables can be pasted into docs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.machine import Machine, build_of, processor_of
from bench.report import Report, Row, against_limit

MACHINE = Machine("CPython 3.13.1", "PGO and LTO", 2, "Some Processor 9", 8 * 1024**3, 0.25)


@pytest.mark.parametrize(
    ("arguments", "flags", "build"),
    [
        ("'--prefix=/usr' '--enable-optimizations' '--with-lto'", "-O3 -fprofile-use -flto", "PGO and LTO"),
        ("'--enable-optimizations'", "-O3 -fprofile-use -fprofile-correction", "PGO"),
        ("", "-O3 -fprofile-instr-use=code.profclangd", "PGO"),
        ("'--with-lto=thin'", "-O3", "LTO"),
        ("'--with-lto' '--with-lto=no'", "-O3", "neither PGO nor LTO"),
        ("'--prefix=/opt/--enable-optimizations-not'", "-O3 -fwrapv", "neither PGO nor LTO"),
        ("", "", "neither PGO nor LTO"),
    ],
)
def test_how_the_interpreter_was_built(arguments: str, flags: str, build: str) -> None:
    assert build_of(arguments, flags) == build


def test_the_processor_is_named_where_linux_names_it() -> None:
    assert processor_of("processor\t: 0\nmodel\t: 17\nmodel name\t: Some Processor 9\n") == "Some Processor 9"
    assert not processor_of("processor\t: 0\nBogoMIPS\t: 50.00\n")


def test_this_machine_is_described() -> None:
    here = Machine.here()
    assert here.cores >= 1
    assert here.memory > 0
    assert here.interpreter.split()[1] in str(here)
    assert here.build in str(here)


def test_what_is_saved_names_the_machine_and_has_a_table_for_each_section(tmp_path: Path) -> None:
    report = Report(MACHINE)
    report.rows = [
        Row("speed", "deliveries", [10.0, 30.0, 20.0], "/s", "nsq", [10.0, 10.0, 10.0], target=1.5),
        against_limit("rest", "an idle bus", [0.9], "% of a core", 0.5),
        Row("speed", "one process", [5.0], "/s", "none", [0.0]),
    ]
    report.failures["kill"] = "it went wrong"
    report.save(tmp_path / "report.json")
    report.save_markdown(tmp_path / "new" / "report.md")
    saved = json.loads((tmp_path / "report.json").read_text())
    assert saved["machine"]["build"] == "PGO and LTO"
    assert [row["ratio"] for row in saved["rows"][:2]] == [2.0, 1.8]
    assert (tmp_path / "new" / "report.md").read_text() == (
        "CPython 3.13.1 (PGO and LTO), 2 cores of Some Processor 9, 8 GiB, load average 0.2 at the start.\n\n"
        "## speed\n\n"
        "| figure | value | beside | reference | ratio | target |  |\n"
        "| --- | ---: | --- | ---: | ---: | ---: | --- |\n"
        "| deliveries | 20.00 /s | nsq | 10.00 | 2.00 (1.00-3.00) | >= 1.50 | met |\n"
        "| one process | 5.00 /s | none | 0.00 |  |  |  |\n"
        "\n## rest\n\n"
        "| figure | value | beside | reference | ratio | target |  |\n"
        "| --- | ---: | --- | ---: | ---: | ---: | --- |\n"
        "| an idle bus | 0.900 % of a core | limit | 0.500 | 1.80 | <= 1.00 | missed |\n"
        "\nkill was not measured: it went wrong\n"
    )
