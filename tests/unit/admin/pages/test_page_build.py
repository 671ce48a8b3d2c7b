"""Pages begin without a look at all objects of the process, which breaks what other threads are making."""

from __future__ import annotations

import subprocess
import sys

# Pages are made once in a process.
_BEGIN = """
import asyncio, gc
from admin.pages.build import make_pages

def listed():
    raise SystemExit("all objects were listed")

async def begin():
    pages = make_pages()
    gc.get_objects = listed
    async with pages.router.lifespan_context(pages):
        print("begun")

asyncio.run(begin())
"""


def test_they_begin_without_listing_all_objects() -> None:
    done = subprocess.run([sys.executable, "-c", _BEGIN], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "begun\n"), done.stderr
