"""Spark's connectors to Kafka, MongoDB and object stores: Maven copies them, with all that they need, into a folder."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from bus.errors import ConfigurationError

KAFKA: Final = ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.0.0")
MONGODB: Final = ("org.mongodb.spark", "mongo-spark-connector_2.13", "10.5.0")
_SDK: Final = "2.29.52"
S3: Final = (
    ("org.apache.hadoop", "hadoop-aws", "3.4.1"),  # of the version of Hadoop that Spark brings
    # What S3A uses of the kit; all of it is one jar of half a gigabyte.
    *(("software.amazon.awssdk", module, _SDK) for module in ("s3", "s3-transfer-manager", "sts")),
)
CLOUD: Final = ("org.apache.spark", "spark-hadoop-cloud_2.13", "4.0.0")
"""Spark's committers and checkpoints for object stores, without the stores of all clouds that it depends on."""
# Spark brings its own, and two of one kind make it fail in ways that do not name the cause.
_BROUGHT: Final = (
    ("org.apache.hadoop", "*"),
    ("org.apache.httpcomponents", "*"),
    ("org.apache.logging.log4j", "*"),
    ("org.apache.spark", "spark-tags_2.13"),
    ("org.scala-lang", "*"),
    ("org.slf4j", "*"),
    ("commons-codec", "*"),
    ("commons-logging", "*"),
    ("io.netty", "*"),
    ("software.amazon.awssdk", "bundle"),
)
_LONGEST: Final = 900.0
_EXCLUSION: Final = "<exclusion><groupId>{}</groupId><artifactId>{}</artifactId></exclusion>"
_DEPENDENCY: Final = """\
    <dependency>
      <groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>
      <exclusions>{}</exclusions>
    </dependency>
"""
_POM: Final = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>pier</groupId>
  <artifactId>connectors</artifactId>
  <version>1</version>
  <dependencies>
{}  </dependencies>
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
            f"{folder} has no jars; Spark needs its connectors to read Kafka, MongoDB or an object store",
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
        pom.write_text(_pom(), "utf-8")
        _copy(pom, made)
        jars = sorted(made.glob("*.jar"))
        if not jars:
            raise ConfigurationError(
                f"Maven copied no jars; {folder} is as it was", hint="look for mdep.skip in its settings"
            )
        _replace(folder, jars)
    return jars_in(folder)


def _pom() -> str:
    brought = "".join(_EXCLUSION.format(*each) for each in _BROUGHT)
    whole = [_DEPENDENCY.format(*each, brought) for each in (KAFKA, MONGODB, *S3)]
    return _POM.format("".join([*whole, _DEPENDENCY.format(*CLOUD, _EXCLUSION.format("*", "*"))]))


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
