"""Finds for each planted bug the first seed that shows it: ``python -m tests.stateful.chains``, after rules changed."""

from __future__ import annotations

import itertools

from rich.console import Console

from tests.stateful.chains.planted import BUGS
from tests.stateful.chains.simulation import Simulation

if __name__ == "__main__":
    console = Console(highlight=False)
    for name, rules in BUGS.items():
        with console.status(name):
            found = (seed for seed in itertools.count() if Simulation(seed, rules()).run().is_wrong)
            console.print(f"{next(found):6,}  {name}")
