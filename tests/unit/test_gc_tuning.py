"""Garbage is collected a little at a time; each in a process of its own, since it is of the whole process."""

from __future__ import annotations

import subprocess
import sys

import pytest

# What is kept is made by the hundred thousand, as by a process that has run for a while.
_SETTLED = """
import gc, itertools, time
from bus import gc_tuning

kept = [{"n": number, "in": [number]} for number in range(400_000)]
gc_tuning.settle()
turns = []
for number in range(20_000):
    turns.append(time.thread_time())
    kept[number] = {"n": number, "in": [number], "more": [[number]]}
longest = max(later - earlier for earlier, later in itertools.pairwise(turns))
gc.unfreeze()
begun = time.thread_time()
gc.collect()
of_all = time.thread_time() - begun
assert longest < of_all / 4, (longest, of_all)
"""
_LASTING = """
import gc
from bus import gc_tuning

with gc_tuning.lasting():
    assert not gc.isenabled()
    made = [[number] for number in range(1_000)]
assert gc.isenabled()
assert not {id(one) for one in made} & {id(one) for one in gc.get_objects()}
try:
    with gc_tuning.lasting():
        raise OSError
except OSError:
    assert gc.isenabled()
"""


@pytest.mark.parametrize("script", [_SETTLED, _LASTING], ids=["settled", "lasting"])
def test_what_lives_as_long_as_the_process_is_not_looked_at_again(script: str) -> None:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
