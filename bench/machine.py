"""The machine and the interpreter of a run."""

from __future__ import annotations

import os
import platform
import sysconfig
from pathlib import Path
from typing import NamedTuple, Self

import psutil

GIB = 1024**3


class Machine(NamedTuple):
    """What the figures of a run stand on.

    Attributes
    ----------
    interpreter
        Its implementation and version.
    build
        How it was compiled, as ``build_of`` names it.
    cores
        How many this run may use.
    memory
        Bytes.
    load
        The load average of the last minute when the run began: what others did.
    """

    interpreter: str
    build: str
    cores: int
    processor: str
    memory: int
    load: float

    @classmethod
    def here(cls) -> Self:
        """Look at the machine and the interpreter that run this."""
        return cls(
            interpreter=f"{platform.python_implementation()} {platform.python_version()}",
            build=build_of(_configured("CONFIG_ARGS"), _configured("PY_CORE_CFLAGS")),
            cores=len(os.sched_getaffinity(0)),
            processor=processor_of(Path("/proc/cpuinfo").read_text()) or platform.machine(),
            memory=psutil.virtual_memory().total,
            load=os.getloadavg()[0],
        )

    def __str__(self) -> str:
        cores = f"{self.cores} core{'s' if self.cores > 1 else ''}"
        return (
            f"{self.interpreter} ({self.build}), {cores} of {self.processor}, {self.memory / GIB:.0f} GiB, "
            f"load average {self.load:.1f} at the start"
        )


def build_of(arguments: str, flags: str) -> str:
    """Return "PGO and LTO", "PGO", "LTO" or "neither PGO nor LTO".

    Parameters
    ----------
    arguments, flags
        ``CONFIG_ARGS`` and ``PY_CORE_CFLAGS`` of the interpreter: some builders leave their trace in only one of them.
    """
    asked = [word.strip("'\"") for word in arguments.split()]
    by_profile = "--enable-optimizations" in asked or "-fprofile-use" in flags or "-fprofile-instr-use" in flags
    # --with-lto may name a kind: full, thin; the last of several counts.
    kinds = [word.partition("=")[2] or "yes" for word in asked if word.partition("=")[0] == "--with-lto"]
    at_link = kinds[-1:] not in ([], ["no"]) or "-flto" in flags
    found = [name for name, is_there in (("PGO", by_profile), ("LTO", at_link)) if is_there]
    return " and ".join(found) or "neither PGO nor LTO"


def processor_of(cpuinfo: str) -> str:
    """Return the model that Linux names, empty where it names none."""
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return ""


def _configured(name: str) -> str:
    return str(sysconfig.get_config_var(name) or "")
