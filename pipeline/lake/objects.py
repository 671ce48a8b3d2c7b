"""Objects of an object store as files: put as a whole, and by exactly one of many where none is there yet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import obstore
import pyarrow.fs as arrow_fs
from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError, PermissionDeniedError
from obstore.store import S3Store

from bus.errors import ConfigurationError
from pipeline.lake.files import Files
from pipeline.object_store import CONNECT_S, REQUEST_S, TRIES, Endpoint, Place, endpoint, place_of

if TYPE_CHECKING:
    from obstore.store import S3Config  # of its stubs

_PROBE: Final = "_probe"
_LOOKS: Final = 2
_HINT: Final = "AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY say who is asked, and as whom"
_DUMP: Final = "\n\nDebug source"


class Objects(Files):
    """Objects below a prefix of a bucket, ``s3a://BUCKET/PATH``; folders are what their names have in common.

    Small ones are read and put by ``obstore``: pyarrow supports no conditional requests (apache/arrow#44281).

    Raises
    ------
    ConfigurationError
        The name, or what the environment says, is impossible.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._place = place_of(root)
        self._endpoint = endpoint()
        super().__init__(_arrow(self._endpoint, TRIES), f"{self._place.bucket}/{self._place.path}")
        try:
            self._store = _store(self._place, self._endpoint, TRIES)
        except (ValueError, BaseError) as error:
            raise self._unreachable(error) from error

    def check(self) -> None:
        """Check that the bucket is there, may be listed, and takes puts on condition.

        A login that may only read is accepted. Leaves an empty object behind, which the next check uses.

        Raises
        ------
        ConfigurationError
            It cannot be reached, or another store's puts would replace what is there.
        """
        try:
            found = _arrow(self._endpoint, _LOOKS).get_file_info(self._place.bucket)
            if found.type != arrow_fs.FileType.NotFound:
                obstore.list_with_delimiter(_store(self._place, self._endpoint, _LOOKS))
        except (OSError, BaseError) as error:
            raise self._unreachable(error) from error
        if found.type == arrow_fs.FileType.NotFound:
            raise ConfigurationError(f"there is no bucket {self._place.bucket}", hint=f"make it, or look: {_HINT}")
        with suppress(PermissionError):
            if self.create(_PROBE, b"") and self.create(_PROBE, b""):
                raise ConfigurationError(
                    f"the store of {self._root} ignores conditions (If-None-Match), so that commits could be lost",
                    hint="use one that supports them; see docs/pipeline.md",
                )

    def make_folder(self, path: str) -> None:
        """Do nothing: a folder is there once an object is in it."""

    def read(self, path: str) -> bytes:
        """Return an object's bytes; raises ``FileNotFoundError``."""
        with _told():
            return bytes(obstore.get(self._store, path).bytes())

    def write(self, path: str, content: bytes) -> None:
        """Put or replace an object atomically; durable when it returns."""
        with _told():
            obstore.put(self._store, path, content, use_multipart=False)

    def create(self, path: str, content: bytes) -> bool:
        """Put an object unless there is one; of concurrent writers exactly one gets True. Durable when it returns.

        A request whose answer was lost is sent again, and then may return False for its own object.
        """
        for _ in range(TRIES):
            try:
                with _told():
                    obstore.put(self._store, path, content, mode="create", use_multipart=False)
            except FileExistsError:
                if self._is_there(path):
                    return False
                # Amazon answers alike (409) while one of that name is being removed: then it is to be sent again.
            else:
                return True
        raise OSError(f"the object store takes no {path}, and has none")

    def _unreachable(self, error: Exception) -> ConfigurationError:
        return ConfigurationError(f"the lake {self._root} cannot be reached: {_line_of(error)}", hint=_HINT)


@contextmanager
def _told() -> Iterator[None]:
    """Raise what failed as files do: OSError and its kinds."""
    try:
        yield
    except AlreadyExistsError as error:
        raise FileExistsError(_line_of(error)) from error
    except NotFoundError as error:
        raise FileNotFoundError(_line_of(error)) from error
    except PermissionDeniedError as error:
        raise PermissionError(_line_of(error)) from error
    except BaseError as error:
        raise OSError(f"the object store failed: {_line_of(error)}") from error


def _line_of(error: Exception) -> str:
    """Return the cause of an error, without the library's internal details."""
    return " ".join(str(error).partition(_DUMP)[0].split())


def _arrow(found: Endpoint, tries: int) -> arrow_fs.FileSystem:
    return arrow_fs.S3FileSystem(
        region=found.region or None,
        endpoint_override=urlsplit(found.url).netloc or None,
        scheme="http" if found.is_plain else "https",
        connect_timeout=CONNECT_S,
        request_timeout=REQUEST_S,
        retry_strategy=arrow_fs.AwsStandardS3RetryStrategy(max_attempts=tries),
        background_writes=False,
    )


def _store(place: Place, found: Endpoint, tries: int) -> S3Store:
    config: S3Config = {"virtual_hosted_style_request": False}
    if found.url:
        config["endpoint"] = found.url.rstrip("/")
    if found.region:
        config["region"] = found.region
    return S3Store(
        place.bucket,
        prefix=place.path or None,
        config=config,
        client_options={
            "allow_http": found.is_plain,
            "connect_timeout": timedelta(seconds=CONNECT_S),
            "timeout": timedelta(seconds=REQUEST_S),
        },
        retry_config={
            "max_retries": tries - 1,
            "backoff": {"init_backoff": timedelta(seconds=0.5), "max_backoff": timedelta(seconds=10), "base": 2},
            "retry_timeout": timedelta(seconds=2 * REQUEST_S),
        },
    )
