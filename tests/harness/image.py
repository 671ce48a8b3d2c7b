"""An image made and run without a container engine: the steps of its Dockerfile in a root of their own, as root.

Each stage is a folder that the steps change their root into, with mounts and process ids that nobody else sees. What
stands in for the engine is here; what is done is read from the Dockerfile.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

import psutil

from tests.harness.dockerfile import Copy, Stage, copy_of, stages
from tests.harness.process import Child

CA: Final = Path("/etc/ssl/certs/ca-certificates.crt")
_CA_INSIDE: Final = "/run/machine-ca.crt"
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# What a build gets of its machine: how packages are reached.
_OF_MACHINE: Final = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "http_proxy", "https_proxy", "no_proxy")
_UNSHARED: Final = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
_STEP: Final = """
set -e
mount -t proc proc "$ROOT/proc"
mount --rbind /dev "$ROOT/dev"
touch "$ROOT/run/machine-ca.crt"
[ ! -e "$CA" ] || mount --bind "$CA" "$ROOT/run/machine-ca.crt"
mount --bind /etc/resolv.conf "$ROOT/etc/resolv.conf"
exec chroot "$ROOT" env -i "$@"
"""
_RUN: Final = """
set -e
ip link set lo up
mount --bind "$ROOT" "$ROOT"
mount -o remount,bind,ro "$ROOT"
mount -t proc proc "$ROOT/proc"
mount -t tmpfs -o mode=1777 tmpfs "$ROOT/tmp"
mount --rbind /dev "$ROOT/dev"
mount --bind "$DATA" "$ROOT$VOLUME"
exec chroot "$ROOT" setpriv --reuid="$USER_ID" --regid="$GROUP_ID" --clear-groups --no-new-privs --bounding-set=-all \
    env -i "$@"
"""


class StepFailed(AssertionError):
    """A step of a Dockerfile did not end with 0; the text has the end of what it printed."""


class Image:
    """What a Dockerfile makes.

    Parameters
    ----------
    bases
        A folder for each image that a stage begins with and that no stage makes.
    work
        For the roots of the stages; an image of some hundred megabytes takes three times as much here.
    """

    def __init__(self, dockerfile: Path, context: Path, bases: Mapping[str, Path], work: Path) -> None:
        self._context = context
        self._bases = dict(bases)
        self._work = work
        self._stages = stages(dockerfile)
        self.stage = self._stages[-1]
        self.root = work / "image"

    def build(self) -> Self:
        """Carry out all stages."""
        for stage in self._stages:
            root = self.root if stage is self.stage else self._work / stage.name
            _copy(self._bases[stage.base], root)
            self._carry_out(stage, root)
            self._bases[stage.name] = root
        return self

    @property
    def environment(self) -> dict[str, str]:
        """What its processes are given."""
        return {"PATH": _PATH} | self.stage.environment

    @property
    def health_command(self) -> list[str]:
        """What tells whether it is well."""
        check = self.stage.last("HEALTHCHECK")
        return check._replace(rest=check.rest.partition("CMD ")[2]).words

    def _carry_out(self, stage: Stage, root: Path) -> None:
        folder = "/"
        for step in stage.steps:
            if step.name == "RUN":
                _run_step(root, folder, step.rest)
            elif step.name == "WORKDIR":
                folder = step.rest
                (root / folder.lstrip("/")).mkdir(parents=True, exist_ok=True)
            elif step.name == "COPY":
                self._copy_step(root, folder, copy_of(step))

    def _copy_step(self, root: Path, folder: str, step: Copy) -> None:
        origin = self._bases[step.stage] if step.stage else self._context
        into = root / str(Path(folder, step.target)).lstrip("/")
        for source in step.sources:
            _copy(origin / source.lstrip("/"), into / Path(source).name if step.target.endswith("/") else into)


class Container:
    """A process of an image, as its user, on a read-only root, with a network and process ids of its own.

    Parameters
    ----------
    data
        What is mounted at the image's volume; it is made the user's.
    words
        In place of the image's ``CMD``.
    """

    def __init__(
        self, image: Image, data: Path, words: Sequence[str] = (), *, env: Mapping[str, str] | None = None
    ) -> None:
        self._image = image
        self._env = image.environment | dict(env or {})
        self._words = [*image.stage.last("ENTRYPOINT").words, *(words or image.stage.last("CMD").words)]
        user, _, group = image.stage.last("USER").rest.partition(":")
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.chown(data, int(user), int(group))
        self._settings = {
            "ROOT": str(image.root),
            "DATA": str(data),
            "VOLUME": image.stage.last("VOLUME").rest,
            "USER_ID": user,
            "GROUP_ID": group,
        }
        self.log = data.with_suffix(".log")
        self.child = Child(
            [*_UNSHARED, "--net", "sh", "-c", _RUN, "sh", *self._inside()], log=self.log, env=self._settings
        )

    def _inside(self) -> list[str]:
        return [*(f"{name}={value}" for name, value in self._env.items()), *self._words]

    @property
    def first(self) -> int:
        """The id, outside, of its first process."""
        return int(psutil.Process(self.child.pid).children()[0].pid)

    def run(self, *words: str, timeout: float = 30) -> subprocess.CompletedProcess[str]:
        """Run a command beside the first process: same user, same root, same network."""
        enter = ["nsenter", "--target", str(self.first), "--mount", "--net", "--pid"]
        user = [f"--reuid={self._settings['USER_ID']}", f"--regid={self._settings['GROUP_ID']}", "--clear-groups"]
        env = [f"{name}={value}" for name, value in self._env.items()]
        command = [
            *enter,
            "chroot",
            str(self._image.root),
            "setpriv",
            *user,
            "--no-new-privs",
            "env",
            "-i",
            *env,
            *words,
        ]
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)

    def is_healthy(self) -> bool:
        """Whether the image's own check says so."""
        self.child.check_running()
        with suppress(IndexError):  # its first process has not begun
            return self.run(*self._image.health_command).returncode == 0
        return False

    def stop(self, within: float = 45) -> int:
        """Send SIGTERM to its first process, as an engine does, and return the exit code."""
        os.kill(self.first, 15)
        return self.child.wait(within)

    def __enter__(self) -> Self:
        self.child.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.child.kill()


def _run_step(root: Path, folder: str, command: str) -> None:
    env = {name: os.environ[name] for name in _OF_MACHINE if name in os.environ} | {"PATH": _PATH, "HOME": "/root"}
    if CA.exists():
        env["PIP_CERT"] = _CA_INSIDE
    inside = [*_assigned(env), "sh", "-c", f"cd {folder} && {command}"]
    done = subprocess.run(
        [*_UNSHARED, "sh", "-c", _STEP, "sh", *inside],
        env={"PATH": _PATH, "ROOT": str(root), "CA": str(CA)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise StepFailed(f"RUN {command}: exit code {done.returncode}\n{(done.stdout + done.stderr)[-4000:]}")


def _assigned(env: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in env.items()]


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        subprocess.run(["cp", "-a", "--reflink=auto", f"{source}/.", str(target)], check=True)
    else:
        shutil.copy2(source, target)
