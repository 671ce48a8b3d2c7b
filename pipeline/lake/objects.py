"""Objects of an object store as files: put as a whole, and by exactly one of many where none is there yet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import obstore
import pyarrow.fs as arrow_fs
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import S3Store

from bus.errors import ConfigurationError
from pipeline.lake.files import Files
from pipeline.object_store import CONNECT_S, REQUEST_S, TRIES, Endpoint, endpoint

if TYPE_CHECKING:
    from obstore.store import S3Config  # of its stubs


class Objects(Files):
    """Objects below a prefix of a bucket, ``s3a://BUCKET/PATH``; folders are what their names have in common.

    Small ones are put by conditional requests, which pyarrow does not know (apache/arrow#44281).

    Raises
    ------
    ConfigurationError
        The name has no bucket.
    """

    def __init__(self, root: str) -> None:
        parts = urlsplit(root)
        if not parts.netloc:
            raise ConfigurationError(f"the lake {root} names no bucket", hint="s3a://BUCKET/PATH")
        found, path = endpoint(), parts.path.strip("/")
        super().__init__(_arrow(found), f"{parts.netloc}/{path}")
        self._bucket = parts.netloc
        self._root = root
        self._store = _store(parts.netloc, path, found)

    def check(self) -> None:
        """See that the bucket is there and may be listed; raises ``ConfigurationError``."""
        hint = "AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY say who is asked, and as whom"
        try:
            is_there = self.arrow.get_file_info(self._bucket).type != arrow_fs.FileType.NotFound
            self.arrow.get_file_info(arrow_fs.FileSelector(self.base, allow_not_found=True))
        except OSError as error:
            raise ConfigurationError(f"the lake {self._root} cannot be reached: {error}", hint=hint) from error
        if not is_there:
            raise ConfigurationError(f"there is no bucket {self._bucket}", hint=f"make it, or ask others: {hint}")

    def make_folder(self, path: str) -> None:
        """Do nothing: a folder is there once an object is in it."""

    def write(self, path: str, content: bytes) -> None:
        """Put or replace an object atomically; durable when it returns."""
        with _told():
            obstore.put(self._store, path, content, use_multipart=False)

    def create(self, path: str, content: bytes) -> bool:
        """Put an object unless there is one; of concurrent writers exactly one gets True. Durable when it returns.

        A request whose answer was lost is sent again, and then may be told False of its own object.
        """
        try:
            with _told():
                obstore.put(self._store, path, content, mode="create", use_multipart=False)
        except FileExistsError:
            return False
        return True


@contextmanager
def _told() -> Iterator[None]:
    """Raise what failed as files do: OSError."""
    try:
        yield
    except AlreadyExistsError as error:
        raise FileExistsError(str(error)) from error
    except BaseError as error:
        raise OSError(f"the object store failed: {error}") from error


def _arrow(found: Endpoint) -> arrow_fs.FileSystem:
    return arrow_fs.S3FileSystem(
        region=found.region or None,
        endpoint_override=urlsplit(found.url).netloc or None,
        scheme="http" if found.is_plain else "https",
        connect_timeout=CONNECT_S,
        request_timeout=REQUEST_S,
        retry_strategy=arrow_fs.AwsStandardS3RetryStrategy(max_attempts=TRIES),
        background_writes=False,
    )


def _store(bucket: str, path: str, found: Endpoint) -> S3Store:
    config: S3Config = {}
    if found.url:
        config["endpoint"] = found.url
    if found.region:
        config["region"] = found.region
    return S3Store(
        bucket,
        prefix=path or None,
        config=config,
        client_options={
            "allow_http": found.is_plain,
            "connect_timeout": timedelta(seconds=CONNECT_S),
            "timeout": timedelta(seconds=REQUEST_S),
        },
        retry_config={"max_retries": TRIES - 1, "retry_timeout": timedelta(seconds=TRIES * REQUEST_S)},
    )
