"""The MongoDB protocol: FerretDB 1.24.0 on PostgreSQL, built from the Go module proxy.

There is no mongod to be had from the package registries. FerretDB is built inside a copy of its own module, whose
``go.sum`` pins everything under it, with the files of ``tests/servers/ferretdb`` laid over it and these changes:

- One write command runs at a time. FerretDB reads a document and writes it back in two steps, so of two updates at the
  same time one would be lost, which MongoDB never does.
- A connection to PostgreSQL is given back after each update of a command. Kept until its end, as it was, 50 updates in
  one command wait for each other for ever.
- Making three indexes that are there already no longer ends the connection.
- Text as ``_id``, alone or in ``{$in: [...]}``, is looked up in the index, as in MongoDB, and not by reading the
  collection.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import NamedTuple

from tests.servers.cache import InstallFailed, cache_dir, install_once, run, unpack_packages

VERSION = "1.24.0"
MODULE = f"github.com/FerretDB/FerretDB@v{VERSION}"
SUM = "h1:7WJmezL48Bj9bYWnhT/bEJgX5gjT5s7LFdHTqkN25rA="
PROGRAM = "bus-ferretdb"
OVERLAY = Path(__file__).parent / "ferretdb"
POSTGRESQL = Path("usr/lib/postgresql/15/bin")
DEBIAN_PACKAGES = (
    *("postgresql-15", "libpq5", "libicu72", "libldap-2.5-0", "libsasl2-2", "libssl3", "libxml2"),
    *("libcom-err2", "libgssapi-krb5-2", "libk5crypto3", "libkeyutils1", "libkrb5-3", "libkrb5support0"),
)


class Patch(NamedTuple):
    """A piece of one file of the module, which must be there once, and what takes its place."""

    file: str
    old: str
    new: str


def _gate(command: str) -> Patch:
    head = f"func (h *Handler) Msg{command}(connCtx context.Context, msg *wire.OpMsg) (*wire.OpMsg, error) {{\n"
    file = f"internal/handler/msg_{command.lower()}.go"
    return Patch(file, head, f"{head}\twriteGate.Lock()\n\tdefer writeGate.Unlock()\n\n")


_UPDATE = '\t\tresult, err := common.UpdateDocument(ctx, c, "update", iter, &u)\n'
_DELETE = "filteredToCreate = slices.Delete(filteredToCreate, i, i+1)\n"
_DELETE_IT = """\
filteredToCreate = slices.DeleteFunc(filteredToCreate, func(other backends.IndexInfo) bool {
\t\t\t\t\treturn other.Name == newIdx.Name
\t\t\t\t})
"""
_EQUAL = """\
\t\tcase float64, string, types.ObjectID, bool, time.Time, int32, int64:
\t\t\tif f, a := filterEqual(p, key, v, keyOperator); f != "" {
"""
_EQUAL_ID = """\
\t\tcase float64, string, types.ObjectID, bool, time.Time, int32, int64:
\t\t\tf, a := filterIDs(p, rootKey, v)
\t\t\tif f == "" {
\t\t\t\tf, a = filterEqual(p, key, v, keyOperator)
\t\t\t}

\t\t\tif f != "" {
"""
_UNKNOWN_OPERATOR = "\t\t\t\tdefault:\n\t\t\t\t\t// $gt and $lt\n"
_IN = """\
\t\t\t\tcase "$in":
\t\t\t\t\tif f, a := filterIDs(p, rootKey, v); f != "" {
\t\t\t\t\t\tfilters = append(filters, f)
\t\t\t\t\t\targs = append(args, a...)
\t\t\t\t\t}

"""
PATCHES = (
    *map(_gate, ("Insert", "Update", "Delete", "FindAndModify", "CreateIndexes", "Drop", "DropDatabase")),
    Patch("internal/handler/msg_update.go", "\t\tdefer closer.Close()\n", ""),
    Patch("internal/handler/msg_update.go", _UPDATE, f"{_UPDATE}\t\tcloser.Close()\n"),
    Patch("internal/handler/msg_createindexes.go", _DELETE, _DELETE_IT),
    Patch("internal/backends/postgresql/query.go", _UNKNOWN_OPERATOR, _IN + _UNKNOWN_OPERATOR),
    Patch("internal/backends/postgresql/query.go", _EQUAL, _EQUAL_ID),
)


def find() -> Path | None:
    """Return the folder with the program and, where the machine has none, PostgreSQL; None when not installed."""
    folder = cache_dir() / _folder()
    return folder if folder.is_dir() and postgresql_of(folder) else None


def install() -> Path:
    """Build the program unless it is there, and fetch PostgreSQL where the machine has none; return the folder."""
    return install_once(_folder(), _build, about=f"a Go build of FerretDB {VERSION}, about a minute")


def postgresql_of(folder: Path) -> Path | None:
    """Return the folder of PostgreSQL's programs: the machine's, or the one fetched; None when there is none."""
    places = [*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True), folder / "postgresql" / POSTGRESQL]
    return next((place for place in places if (place / "postgres").exists() and (place / "initdb").exists()), None)


def libraries_of(folder: Path) -> Path:
    """Return where the libraries of a fetched PostgreSQL are."""
    return next((folder / "postgresql/usr/lib").glob("*-linux-gnu"), folder)


def _folder() -> str:
    digest = hashlib.sha256(repr((SUM, PATCHES)).encode())
    for path in sorted(OVERLAY.rglob("*.go")):
        digest.update(path.read_bytes())
    return f"ferretdb-{VERSION}-{digest.hexdigest()[:8]}"


def _build(work: Path) -> None:
    module = json.loads(run(["go", "mod", "download", "-json", MODULE], cwd=work))
    if module["Sum"] != SUM:
        raise InstallFailed(f"{MODULE} has the checksum {module['Sum']}, not {SUM}")
    source = work / "source"
    shutil.copytree(module["Dir"], source, copy_function=shutil.copyfile)
    for folder in (source, *source.rglob("*/")):
        folder.chmod(0o755)
    shutil.copytree(OVERLAY, source, dirs_exist_ok=True)
    (source / "build/version/version.txt").write_text(f"v{VERSION}\n")
    for patch in PATCHES:
        _apply(patch, source / patch.file)
    run(["go", "build", "-buildvcs=false", "-trimpath", "-o", f"{work}/", f"./cmd/{PROGRAM}"], cwd=source)
    shutil.rmtree(source)
    if postgresql_of(work) is None:
        _fetch_postgresql(work)


def _apply(patch: Patch, path: Path) -> None:
    text = path.read_text()
    if text.count(patch.old) != 1:
        raise InstallFailed(f"{patch.file} has {text.count(patch.old)} times what is to be changed: {patch.old!r}")
    path.write_text(text.replace(patch.old, patch.new))


def _fetch_postgresql(work: Path) -> None:
    """Unpack Debian's packages into the folder; nothing of the machine changes and no service starts."""
    unpack_packages(work / "postgresql", *DEBIAN_PACKAGES)
    postgres = work / "postgresql" / POSTGRESQL / "postgres"
    linked = run(["ldd", str(postgres)], env={"LD_LIBRARY_PATH": str(libraries_of(work))})
    absent = [line.split()[0] for line in linked.splitlines() if "not found" in line]
    if absent:
        raise InstallFailed(f"PostgreSQL needs libraries that this machine does not have: {', '.join(absent)}")
