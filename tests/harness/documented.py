"""The examples of a page of the docs, run in order as a reader would run them.

A comment before a fenced block, which no reader sees, says what the block is:

``<!-- run -->``
    Commands of a shell, or Python. They exit 0, or as ``<!-- run: exits 1 -->`` or ``<!-- run: any exit -->`` says.
``<!-- terminal: bus -->``
    What goes on in a terminal of its own, from when it has printed something. The next block for the same terminal
    comes after a Ctrl-C. ``<!-- terminal: bus killed -->``, before no block, is what a power cut does to it.
``<!-- file: bus.toml -->``
    What a file has in it.
``<!-- prints -->``
    What the block before has printed; of a terminal it is waited for. ``<!-- prints: at last -->`` runs the block
    again until it is so: what happens beside it takes its time.

``<!-- run $ COMMAND -->`` and ``<!-- terminal: bus $ COMMAND -->`` stand alone, for what a reader has done already.

``ID`` in a command is the last id that was printed. In what is printed ids, times and numbers with a unit may be
others, a run of blanks has any length, ``...`` stands for anything, and a line of it for any lines. Ports of the
examples are replaced by free ones, so that runs can go on beside each other.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, Self

from tests.harness.process import ROOT, free_port
from tests.harness.waiting import TooLate, wait_until

_BLOCK: Final = re.compile(
    r"^<!-- (?P<kind>run|terminal|file|prints)(?:: (?P<how>[^$\n]*?))? ?(?:\$ (?P<hidden>.*?) )?-->\n"
    r"(?:```(?P<language>\w*)\n(?P<text>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
_PORTS: Final = ("8700", "8701", "8702", "8703", "8710", "9000", "9001", "9092", "9093")
_BEHIND_PORT: Final = re.compile(rf"\b(?:{'|'.join(_PORTS)})\b")
_DEFAULTS: Final = {"bus up": "8700", "bus run receiver": "8700", "bus run admin": "8701"}
_ID: Final = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
# What is another one in each run, by what stands for it.
_VARIES: Final = (
    (_ID, "<id>"),
    (re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z?)?"), "<time>"),
    (re.compile(r"\b\d\d:\d\d:\d\d(?:\.\d+)?Z?"), "<time>"),
    (re.compile(r"\bwhsec_\S+"), "<secret>"),
    (re.compile(r"\+?\b\d+(?:\.\d+)? ?(?:ms|s|min|GiB|MiB|KiB|B|bytes)\b"), "<size>"),
)
WITHIN: Final = 60.0
_EVERY: Final = 0.3  # a command takes as long of a core


class Step(NamedTuple):
    """One block: what it is, how, and its text."""

    kind: str
    how: str
    language: str
    text: str
    line: int


class Failed(AssertionError):
    """An example does something else than its page says."""


def steps(page: str) -> list[Step]:
    """Return the examples of a page."""
    return list(_steps(page))


def _steps(page: str) -> Iterator[Step]:
    for found in _BLOCK.finditer(page):
        text = found["hidden"] or found["text"] or ""
        line = page.count("\n", 0, found.start()) + 1
        yield Step(found["kind"], (found["how"] or "").strip(), found["language"] or "sh", text, line)


def pattern(expected: str) -> re.Pattern[str]:
    """Return what an output has to be, in which what varies may vary."""
    lines = [r"(?:.*\n)*" if line == "..." else _line(line) for line in _plain(expected).splitlines()]
    return re.compile("".join(lines))


def _line(text: str) -> str:
    return re.escape(text).replace(re.escape("..."), ".*") + r"\n"


def _plain(text: str) -> str:
    for varying, name in _VARIES:
        text = varying.sub(name, text)
    return "".join(" ".join(line.split()) + "\n" for line in text.strip("\n").splitlines())


def fits(expected: str, output: str) -> bool:
    """Whether an output is what a page shows."""
    return pattern(expected).fullmatch(_plain(output)) is not None


class Reader:
    """Somebody who does what a page says, in an empty folder.

    Parameters
    ----------
    folder
        Where.
    env
        What is in the environment besides.
    ports
        Ports that stand for some of a page's; the others are free ones.
    """

    def __init__(self, folder: Path, *, env: Mapping[str, str] = {}, ports: Mapping[str, str] = {}) -> None:
        self._folder = folder
        self._ports = {port: ports.get(port) or str(free_port()) for port in _PORTS}
        clean = {name: value for name, value in os.environ.items() if not name.startswith("BUS_")}
        path = f"{_programs(folder)}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        own = {"PATH": path, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "TZ": "UTC", "HOME": str(folder)}
        self._env = clean | own | {"BUS_URL": f"http://127.0.0.1:{self._ports['8700']}", **env}
        self._terminals: dict[str, _Terminal] = {}
        self._id = ""
        self._output = ""

    def read(self, page: str) -> int:
        """Do all that a page says, and return how many blocks that were; raises ``Failed``."""
        todo = steps(page)
        for number, step in enumerate(todo):
            then = todo[number + 1] if number + 1 < len(todo) else None
            again = then is not None and (then.kind, then.how) == ("prints", "at last")
            try:
                self._do(step, then.text if again and then is not None else None)
            except (Failed, TooLate) as error:
                raise Failed(f"line {step.line}: {step.text.strip()}\n{error}{self._told()}") from error
        return len(todo)

    def _do(self, step: Step, until: str | None) -> None:
        if step.kind == "file":
            path = self._folder / step.how
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self._named(step.text))
        elif step.kind == "terminal":
            self._type_into(step)
        elif step.kind == "prints":
            self._compare(step)
        elif until is None:
            self._run(step)
        else:
            same = partial(self._succeeds, step, until)
            wait_until(same, within=WITHIN, what=until, every=_EVERY, state=self._last)

    def _succeeds(self, step: Step, until: str) -> bool:
        try:
            return fits(self._named(until), self._run(step))
        except Failed as error:
            self._output += str(error)
            return False

    def _compare(self, step: Step) -> None:
        expected = self._named(step.text)
        if step.how.startswith("in "):
            shown = self._terminals[step.how.removeprefix("in ")].output
            wait_until(lambda: fits(expected, shown()), within=WITHIN, what=step.text, state=shown)
        elif step.how != "at last" and not fits(expected, self._output):
            raise Failed(f"it printed\n{self._output}")

    def _last(self) -> str:
        return self._output

    def _run(self, step: Step) -> str:
        codes = {step.how.removeprefix("exits ")} if step.how else {"0"}
        commands = [step.text] if step.language == "python" else list(_commands(step.text))
        self._output = ""
        for number, command in enumerate(commands):
            done = self._finished(step.language, command)
            self._note(done.stdout)
            self._output += done.stdout
            wanted = codes if number == len(commands) - 1 else {"0"}
            if not wanted & {str(done.returncode), "any exit"}:
                raise Failed(f"{command}exit {done.returncode}, not {min(wanted)}\n{done.stdout}{done.stderr}")
            self._output += "" if done.returncode == 0 else done.stderr
        return self._output

    def _finished(self, language: str, command: str) -> subprocess.CompletedProcess[str]:
        text = self._named(command)
        argv = [sys.executable, "-c", text] if language == "python" else ["bash", "-euo", "pipefail", "-c", text]
        return subprocess.run(
            argv, cwd=self._folder, env=self._env, capture_output=True, text=True, timeout=WITHIN * 2, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def _type_into(self, step: Step) -> None:
        name, _, how = step.how.partition(" ")
        if name in self._terminals:
            former = self._terminals.pop(name)
            former.close() if how == "killed" else former.interrupt()
        if step.text:
            default = next((port for command, port in _DEFAULTS.items() if step.text.startswith(command)), "")
            env = self._env | ({"BUS_PORT": self._ports[default]} if default and "--port" not in step.text else {})
            self._terminals[name] = _Terminal(self._folder, f"{name}-{step.line}", self._named(step.text), env)

    def _named(self, text: str) -> str:
        return re.sub(r"\bID\b", self._id or "ID", _BEHIND_PORT.sub(lambda found: self._ports[found[0]], text))

    def _note(self, output: str) -> None:
        if found := _ID.findall(output):
            self._id = found[-1]

    def _told(self) -> str:
        return "".join(
            f"\n--- terminal {name}\n{each.output()}{each.errors()}" for name, each in self._terminals.items()
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for terminal in self._terminals.values():
            terminal.close()


def _programs(folder: Path) -> Path:
    """Return a folder with ``bus`` and ``python`` as a reader has them on the path, of this tree."""
    programs = folder / ".bin"
    programs.mkdir(parents=True)
    for name, options in (("bus", " -m bus.cli"), ("python", "")):
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable}{options} "$@"\n')
        (programs / name).chmod(0o755)
    return programs


class _Terminal:
    """A terminal in which something goes on; it is open once that has printed something."""

    def __init__(self, folder: Path, name: str, text: str, env: Mapping[str, str]) -> None:
        self._log, self._errors = folder / f".{name}.out", folder / f".{name}.err"
        with self._log.open("wb") as output, self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                # Who starts the tests in the background has Ctrl-C ignored, by all below too; a reader has not.
                ["env", "--default-signal=INT", "bash", "-euo", "pipefail", "-c", text],
                cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, start_new_session=True,
            )  # fmt: skip
        wait_until(self._speaks, within=WITHIN, what=f"something that prints: {text}", state=self.errors)

    def _speaks(self) -> bool:
        if self._process.poll() is not None:
            raise Failed(f"it ended with {self._process.returncode}\n{self.output()}{self.errors()}")
        return bool(self.output())

    def output(self) -> str:
        """Return what was printed."""
        return self._log.read_text()

    def errors(self) -> str:
        """Return what was printed as errors and logs."""
        return self._errors.read_text()[-4000:]

    def interrupt(self) -> None:
        """Press Ctrl-C, and wait until it has ended."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGINT)
        self._process.wait(WITHIN)

    def close(self) -> None:
        """Close the window."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def _commands(text: str) -> Iterator[str]:
    """Yield the commands of a block one by one: whole lines that a shell can read."""
    lines: list[str] = []
    for line in text.splitlines(keepends=True):
        lines.append(line)
        if "".join(lines).strip() and not line.rstrip("\n").endswith("\\") and _is_whole(lines):
            yield "".join(lines)
            lines = []


def _is_whole(lines: Sequence[str]) -> bool:
    read = subprocess.run(["bash", "-n", "-c", "".join(lines)], capture_output=True, check=False)
    return read.returncode == 0 and b"here-document" not in read.stderr
