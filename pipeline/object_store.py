"""Access to an S3 object store: one form of names, and the environment that S3's clients share."""

from __future__ import annotations

import os
import re
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from bus.errors import ConfigurationError

SCHEME: Final = "s3a"
"""The scheme of names. Spark supports S3 by this one alone; ADR 37 gives the reasons."""
CONNECT_S: Final = 5
REQUEST_S: Final = 30
"""Seconds for a connection, and for a request."""
TRIES: Final = 9
"""Number of times that a request is sent, with growing pauses: over half a minute and more."""
CHECKPOINTS: Final = {
    # A file of a checkpoint appears as a whole, by the end of its upload, and not by a rename, which copies.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"
    )
}
"""The settings that Spark needs to keep a stream's progress in an object store."""
_COMMITTERS: Final = {
    # Tasks upload to the final names, and the uploads are ended when the job commits: nothing is copied.
    "spark.hadoop.fs.s3a.committer.name": "magic",
    "spark.hadoop.mapreduce.outputcommitter.factory.scheme.s3a": "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory",
    "spark.sql.sources.commitProtocolClass": "org.apache.spark.internal.io.cloud.PathOutputCommitProtocol",
    "spark.sql.parquet.output.committer.class": "org.apache.spark.internal.io.cloud.BindingParquetOutputCommitter",
}
_REGION: Final = "us-east-1"  # where others than Amazon have none
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]*")
_PART: Final = re.compile(r"[A-Za-z0-9._=@+-]+")
_CREDENTIALS: Final = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"


class Endpoint(NamedTuple):
    """The address of an object store, from the environment: AWS_ENDPOINT_URL and AWS_REGION.

    Attributes
    ----------
    url
        Empty for Amazon's own.
    region
        Empty where none is named, and it is Amazon's own.
    """

    url: str
    region: str

    @property
    def is_plain(self) -> bool:
        """Whether it is asked without TLS."""
        return urlsplit(self.url).scheme == "http"


def endpoint() -> Endpoint:
    """Return the endpoint that the environment names; raises ``ConfigurationError`` where the URL is none."""
    url = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")
    parts = urlsplit(url)
    if url and not (parts.scheme in ("http", "https") and parts.netloc and parts.path in ("", "/")):
        raise ConfigurationError(
            f"AWS_ENDPOINT_URL is {url!r}",
            hint="https://HOST:PORT and no path; Amazon's own without it",
        )
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION", "")
    return Endpoint(url, region or (_REGION if url else ""))


class Place(NamedTuple):
    """A part of an object store: a bucket, and what the names of its objects begin with."""

    bucket: str
    path: str


def place_of(root: str) -> Place:
    """Return the parts of a name.

    Raises
    ------
    ConfigurationError
        It has no bucket, or signs that Spark and other readers understand each in their own way.
    """
    bucket, _, path = root.removeprefix(f"{SCHEME}://").rstrip("/").partition("/")
    parts = path.split("/") if path else []
    if not _BUCKET.fullmatch(bucket) or any(not _PART.fullmatch(part) or part in (".", "..") for part in parts):
        raise ConfigurationError(
            f"{root} is no name in an object store",
            hint="s3a://BUCKET/PATH, of letters, digits and any of . _ - = @ + between slashes",
        )
    return Place(bucket, path)


def is_object_store(root: str) -> bool:
    """Whether a name is of an object store."""
    return root.startswith(f"{SCHEME}://")


def spark_settings() -> dict[str, str]:
    """Return Spark's settings for access to an object store, as Hadoop's S3A and its committers document it."""
    found = endpoint()
    settings = {
        "spark.hadoop.fs.s3a.aws.credentials.provider": _CREDENTIALS,
        "spark.hadoop.fs.s3a.connection.establish.timeout": f"{CONNECT_S}s",
        "spark.hadoop.fs.s3a.connection.timeout": f"{REQUEST_S}s",
        **_COMMITTERS,
    }
    if found.url:
        settings["spark.hadoop.fs.s3a.endpoint"] = found.url
        settings["spark.hadoop.fs.s3a.path.style.access"] = "true"
    if found.region:
        settings["spark.hadoop.fs.s3a.endpoint.region"] = found.region
    return settings
