"""Calls to the HTTP API of the bus; every failure is one error with a hint."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import quote, unquote, urlsplit

import msgspec

from bus.error_texts import error_text
from bus.errors import BusError, ConfigurationError, ReceiverRefused, ReceiverUnavailable
from bus.network.names import is_http_url
from bus.suggestions import did_you_mean

if TYPE_CHECKING:
    import httpx

_SECONDS: Final = 30.0
_CONNECT_SECONDS: Final = 5.0
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_HINTS: Final = {
    401: "give --api-key or set BUS_API_KEY; create a key with: bus key create",
    403: "the key lacks this permission; create another one with: bus key create",
}
_OK: Final = range(200, 300)
NOT_FOUND: Final = 404
_DESTINATIONS: Final = "/api/v1/destinations"
_NAMED: Final = re.compile(r"/(?:api/v1/destinations|v1/messages)/([^/]+)(?:/subscriptions/([^/]+))?")


# A hint that ends in a command which calls a bus.
_COMMAND: Final = re.compile(r"(?:^|[:;,?] )bus (?!(?:up|run|pipeline|backup|restore|context)\b)[a-z][^.;]*$")


class _Problem(msgspec.Struct, frozen=True):
    title: str = ""
    detail: str = ""
    hint: str = ""


class Api:
    """A connection to one bus; a context manager.

    Parameters
    ----------
    timeout
        Seconds to wait for a response.
    options
        What a command needs to call the same bus: it is added to the commands in hints.

    Raises
    ------
    ConfigurationError
        The address is not an http or https URL.
    """

    def __init__(self, url: str, api_key: str, *, timeout: float = _SECONDS, options: Sequence[str] = ()) -> None:
        import httpx  # noqa: PLC0415 - `bus --help` does without

        from bus.network.certificates import with_expiry_date  # noqa: PLC0415

        if not is_http_url(url):
            raise ConfigurationError(f"--server {url!r} is not an http or https address", hint="http://127.0.0.1:8700")
        parts = urlsplit(url)
        self.url = url.rstrip("/")
        self.options = options
        self._httpx = httpx
        self._http = httpx.Client(
            headers={"authorization": f"Bearer {api_key}"} if api_key else {},
            timeout=httpx.Timeout(timeout, connect=min(timeout, _CONNECT_SECONDS)),
            trust_env=parts.hostname not in _LOOPBACK,
            # Reading the authorities' certificates takes 30 ms.
            verify=with_expiry_date(httpx.create_ssl_context()) if parts.scheme == "https" else False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def call(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, object] | None = None,
        suggest: bool = True,
    ) -> Any:
        """Make a call and return the JSON of the response, None if it has no content.

        Parameters
        ----------
        body, content
            A value to encode as JSON, or bytes to send unchanged.
        suggest
            If a destination or subscription does not exist, look for one with a similar name.

        Raises
        ------
        ReceiverUnavailable
            No response, 429 or 5xx.
        ReceiverRefused
            Any other error status, in ``status``.
        """
        if body is not None:
            content = msgspec.json.encode(body)
            headers = {"content-type": "application/json", **(headers or {})}
        encoded = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
        try:
            response = self._http.request(
                method, self.url + path, content=content, headers=encoded, params=_params(query)
            )
        except (self._httpx.HTTPError, self._httpx.InvalidURL) as error:
            raise self._silence(error) from error
        if response.status_code not in _OK:
            meant = self.meant(path) if suggest and response.status_code == NOT_FOUND else ""
            raise self._refusal(response, meant)
        return self._json(response)

    def meant(self, path: str) -> str:
        """Return which existing destination or subscription a path probably means; empty if none is similar."""
        named = _NAMED.match(path)
        if named is None:
            return ""
        code, name = (unquote(part) for part in named.groups(""))
        try:
            codes = [each["code"] for each in self.call("GET", _DESTINATIONS, suggest=False)["items"]]
            if code not in codes or not name:
                return did_you_mean(code, codes)
            found = self.call("GET", f"{destination_path(code)}/subscriptions", suggest=False)["items"]
            return did_you_mean(name, [each["name"] for each in found])
        except (BusError, KeyError, TypeError):
            return ""

    @contextmanager
    def download(self, path: str, query: Mapping[str, object]) -> Iterator[Iterator[bytes]]:
        """Yield the parts of a file, without a limit of time; raises as ``call`` does, also after the first parts."""
        begun = False
        waits = self._httpx.Timeout(None, connect=_CONNECT_SECONDS)
        try:
            with self._http.stream("GET", self.url + path, params=_params(query), timeout=waits) as response:
                if response.status_code not in _OK:
                    response.read()
                    raise self._refusal(response)
                begun = True
                yield response.iter_bytes()
        except (self._httpx.HTTPError, self._httpx.InvalidURL) as error:
            if not begun:
                raise self._silence(error) from error
            raise cut_off(self.url) from error

    def _silence(self, error: Exception) -> ReceiverUnavailable:
        hint = "check --server" if self.options else "start one with: bus up; or give --server"
        return ReceiverUnavailable(f"cannot reach {self.url}: {error_text(error)}", hint=hint)

    def _json(self, response: httpx.Response) -> Any:
        if not response.content:
            return None
        try:
            return msgspec.json.decode(response.content)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ReceiverRefused(f"{self.url} is not a bus", hint="check --server") from error

    def _refusal(self, response: httpx.Response, meant: str = "") -> ReceiverRefused | ReceiverUnavailable:
        status = response.status_code
        try:
            said = msgspec.json.decode(response.content, type=_Problem)
        except (msgspec.DecodeError, UnicodeDecodeError):
            said = _Problem(detail=f"{self.url} responded {status} {response.reason_phrase}")
        message = said.detail or said.title or f"{self.url} responded {status}"
        kind = ReceiverUnavailable if status == 429 or status >= 500 else ReceiverRefused  # noqa: PLR2004
        hint = " ".join(filter(None, (meant, _HINTS.get(status) or said.hint)))
        if self.options and _COMMAND.search(hint):
            hint = f"{hint} {shlex.join(self.options)}"
        return kind(message, hint=hint, status=status)


def cut_off(url: str) -> ReceiverUnavailable:
    """Return the error for an incomplete file."""
    return ReceiverUnavailable(
        f"{url} closed the connection before the end of the file; the file is incomplete",
        hint="check the log of the bus and bus doctor, then export again",
    )


def _params(query: Mapping[str, object] | None) -> dict[str, str]:
    return {name: str(value) for name, value in (query or {}).items() if value is not None}


def destination_path(code: str) -> str:
    """Return the path of a destination."""
    return f"{_DESTINATIONS}/{quote(code, safe='')}"


def subscription_path(code: str, name: str) -> str:
    """Return the path of a subscription."""
    return f"{destination_path(code)}/subscriptions/{quote(name, safe='')}"


def message_path(message_id: str) -> str:
    """Return the path of a message."""
    return f"/api/v1/messages/{quote(message_id, safe='')}"


def put_or_patch(api: Api, path: str, fields: Mapping[str, object]) -> Any:
    """Create a resource with these fields, or change only these fields of an existing one."""
    try:
        api.call("GET", path, suggest=False)
    except ReceiverRefused as error:
        if error.status != NOT_FOUND:
            raise
        return api.call("PUT", path, body=fields)
    return api.call("PATCH", path, body=fields)
