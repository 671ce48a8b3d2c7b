"""Spark's connectors to Kafka and MongoDB: Maven copies them, with all that they need, into a folder."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from bus.errors import ConfigurationError

KAFKA: Final = ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.0.0")
MONGODB: Final = ("org.mongodb.spark", "mongo-spark-connector_2.13", "10.5.0")
# Spark brings its own, and two of one kind make it fail in ways that do not name the cause.
_BROUGHT: Final = ("hadoop-", "slf4j-", "scala-library", "spark-tags", "log4j")
_LONGEST: Final = 900.0
_DEPENDENCY: Final = """\
    <dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>
"""
_POM: Final = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>pier</groupId>
  <artifactId>connectors</artifactId>
  <version>1</version>
  <dependencies>
{_DEPENDENCY.format(*KAFKA)}{_DEPENDENCY.format(*MONGODB)}  </dependencies>
</project>
"""


def jars_in(folder: Path) -> list[Path]:
    """Return the jars of a folder that ``install`` filled.

    Raises
    ------
    ConfigurationError
        There are none.
    """
    jars = sorted(folder.glob("*.jar"))
    if not jars:
        raise ConfigurationError(
            f"{folder} has no jars; Spark needs its connectors to read Kafka or MongoDB",
            hint=f"bus pipeline connectors {folder}",
        )
    return jars


def install(folder: Path) -> list[Path]:
    """Have Maven copy the connectors into a folder, in place of the jars that are there; return the jars.

    Raises
    ------
    ConfigurationError
        The folder has anything but jars, Maven is not there, or it could not resolve them; the folder is as it was.
    """
    folder = folder.absolute()
    _check_only_jars(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as scratch:
        pom, made = Path(scratch) / "pom.xml", Path(scratch) / "jars"
        pom.write_text(_POM, "utf-8")
        _copy(pom, made)
        jars = [jar for jar in made.glob("*.jar") if not jar.name.startswith(_BROUGHT)]
        if not jars:
            raise ConfigurationError(
                f"Maven copied no jars; {folder} is as it was", hint="look for mdep.skip in its settings"
            )
        _replace(folder, jars)
    return jars_in(folder)


def _check_only_jars(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise ConfigurationError(f"{folder} is no folder; it is as it was", hint="name a folder for the jars alone")
    others = sorted(path.name for path in folder.glob("*") if path.suffix != ".jar" or not path.is_file())
    if others:
        raise ConfigurationError(
            f"{folder} has more than jars in it, such as {others[0]}; nothing of it was changed",
            hint="name a folder for the jars alone: a new one, an empty one, or one that this command filled",
        )


def _replace(folder: Path, jars: list[Path]) -> None:
    folder.mkdir(exist_ok=True)
    for jar in jars:
        shutil.move(jar, folder / jar.name)  # the folder may be a volume of its own
    names = {jar.name for jar in jars}
    for old in folder.glob("*.jar"):
        if old.name not in names:
            old.unlink()


def _copy(pom: Path, target: Path) -> None:
    command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={target}"]
    try:
        done = subprocess.run(  # noqa: S603 - a fixed program with our own file
            [*command, "-DincludeScope=runtime"], capture_output=True, text=True, check=False, timeout=_LONGEST
        )
    except FileNotFoundError:
        raise ConfigurationError("mvn is not on the PATH", hint="install Maven, or copy the jars by hand") from None
    if done.returncode:
        last = " ".join((done.stdout + done.stderr).split())[-500:]
        raise ConfigurationError(f"Maven could not copy the connectors: {last}", hint="check its access to a mirror")
