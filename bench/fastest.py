"""Names the fastest Python of this machine, and why it is taken; needs nothing but a Python, since none is set up yet.

One that is built with profile-guided optimisation takes a fifth less. How a build was made cannot be asked of each, so
they are measured.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

ROUNDS = 3
WORTH_IT = 0.9
PLACES = ("/usr/local/bin", "/usr/bin")
# Calls, small objects, dictionaries and texts, as of messages; with what a virtual environment needs.
WORK = """
import ensurepip, time, venv
class Record:
    __slots__ = ("key", "body")
    def __init__(self, key, body):
        self.key, self.body = key, body
def work(known):
    for number in range(60_000):
        key = str(number % 5_000)
        known[key] = Record(key, (number, key))
        if known[key].body[0] % 3 == 0:
            known.pop(key)
begun = time.process_time()
work({})
print(time.process_time() - begun)
"""


def candidates(own: str, places: Iterable[str]) -> list[str]:
    """Return this Python, and others of its minor version, each once."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    found = {os.path.realpath(own): own}
    for place in places:
        path = Path(place, name)
        if path.exists():
            found.setdefault(os.path.realpath(path), str(path))
    return list(found.values())


def measured(pythons: Iterable[str], rounds: int = ROUNDS) -> dict[str, float]:
    """Return the processor seconds that each took for the same, the least of several turns; none that cannot do it."""
    best: dict[str, float] = {}
    for _ in range(rounds):
        for python in pythons:
            done = subprocess.run([python, "-c", WORK], capture_output=True, text=True, timeout=60, check=False)
            if done.returncode == 0:
                best[python] = min(float(done.stdout), best.get(python, float("inf")))
    return best


def fastest(own: str, seconds: Mapping[str, float]) -> str:
    """Return the one to take: this one unless another takes a tenth less at least."""
    best = min(seconds, key=lambda python: seconds[python], default=own)
    return best if own not in seconds or seconds[best] < WORTH_IT * seconds[own] else own


def reason(taken: str, seconds: Mapping[str, float]) -> str:
    """Return in words why this one is taken."""
    others = ", ".join(f"{python} {took:.2f} s" for python, took in seconds.items() if python != taken)
    if not others:
        return "the only one of its version here"
    return f"{seconds[taken]:.2f} s for the same work; {others}"


def main(*named: str) -> None:
    """Print the path of the Python to take, a colon, its version and the reason."""
    own = sys.executable
    seconds = {} if named else measured(candidates(own, [*os.environ.get("PATH", "").split(os.pathsep), *PLACES]))
    taken = named[0] if named else fastest(own, seconds)
    version = subprocess.run([taken, "--version"], capture_output=True, text=True, timeout=60, check=True).stdout
    print(f"{taken}: {version.strip()}, {'named by PYTHON' if named else reason(taken, seconds)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
