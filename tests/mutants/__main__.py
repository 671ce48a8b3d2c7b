"""``python -m tests.mutants [NAME]...``: seed faults one at a time, and tell which of them the tests catch."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from tests.harness.process import ROOT
from tests.mutants.copies import copy_of
from tests.mutants.seeded import Mutant, load
from tests.mutants.trial import Result, attempt, borne_out, present


def main() -> int:
    arguments, chosen = _arguments()
    tree = arguments.tree.resolve()
    if arguments.check:
        return _check(tree, chosen, arguments.deadline)
    results: list[Result] = []
    with copy_of(tree) as copy:
        for mutant in chosen:
            results.append(attempt(mutant, copy, deadline=arguments.deadline))
            print(f"[{len(results)}/{len(chosen)}] {_line(results[-1])}", flush=True)
        results = borne_out(results, copy, deadline=arguments.deadline)
    _show(results)
    if arguments.json is not None:
        arguments.json.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=2))
    return int(any(result.state != "caught" for result in results))


def _arguments() -> tuple[argparse.Namespace, list[Mutant]]:
    mutants = load()
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("name", nargs="*", help="faults to seed (default: all)")
    parser.add_argument("--tree", type=Path, default=ROOT, help="another tree, whose tests are tried (default: this)")
    parser.add_argument("--json", type=Path, help="write the results there as well")
    parser.add_argument("--deadline", type=float, default=1800.0, help="seconds for one fault (default: 1800)")
    parser.add_argument("--check", action="store_true", help="only run the tests of all faults, with no fault seeded")
    arguments = parser.parse_args()
    unknown = set(arguments.name) - {mutant.name for mutant in mutants}
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are: {', '.join(one.name for one in mutants)}")
    return arguments, [mutant for mutant in mutants if not arguments.name or mutant.name in arguments.name]


def _check(tree: Path, mutants: Sequence[Mutant], deadline: float) -> int:
    """Run the tests that are nearest to the faults on the tree as it is: only then does a failure tell of a fault."""
    paths = list(dict.fromkeys(path for mutant in mutants for path in mutant.tests))
    with copy_of(tree) as copy:
        copy.renew()
        done = copy.pytest(present(paths, copy.path), within=deadline)
    print(done.output)
    return 1 if done.code is None else done.code


def _line(result: Result) -> str:
    return "  ".join(filter(None, (result.name, result.state, result.stage, f"{result.seconds:.1f} s", result.by)))


def _show(results: Sequence[Result]) -> None:
    table = Table("fault", "result", "stage", "seconds")
    for result in results:
        table.add_row(result.name, result.state, result.stage, f"{result.seconds:.1f}")
    console = Console()
    console.print(table)
    caught = sum(result.state == "caught" for result in results)
    console.print(f"{caught} of {len(results)} caught", highlight=False)


if __name__ == "__main__":
    sys.exit(main())
