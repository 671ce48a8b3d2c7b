"""TLS with verification, and AUTH, against real nsqds."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest
import trustme

from bus.errors import ConfigurationError, TransportRefused
from bus.transports.nsq import Compression, verifying
from tests.integration.nsq.auth_server import AuthServer
from tests.integration.nsq.nsq_world import (
    config,
    eventually,
    numbers,
    opened,
    outgoing,
    publish,
    receive,
    subscribed,
    well,
)
from tests.servers import nsq

Start = Callable[..., nsq.NsqdServer]


class Authority(NamedTuple):
    """A certificate authority, and its file."""

    issuer: trustme.CA
    file: Path

    def options(self, *names: str) -> list[str]:
        """Return what makes nsqd use a certificate for these names."""
        folder = self.file.parent
        certificate = self.issuer.issue_cert(*names)
        certificate.private_key_pem.write_to_path(str(folder / "key.pem"))
        (folder / "cert.pem").write_bytes(b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
        return [f"-tls-cert={folder / 'cert.pem'}", f"-tls-key={folder / 'key.pem'}"]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    issuer = trustme.CA()
    issuer.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    return Authority(issuer, tmp_path / "ca.pem")


@pytest.fixture
def start(programs: Path, tmp_path: Path) -> Iterator[Start]:
    with ExitStack() as stack:

        def start(*options: str) -> nsq.NsqdServer:
            return stack.enter_context(nsq.NsqdServer(programs, tmp_path / "nsqd", options=options))

        yield start


@pytest.fixture
def auth() -> Iterator[AuthServer]:
    with AuthServer() as server:
        yield server


@pytest.mark.parametrize("compression", list(Compression))
async def test_every_connection_is_encrypted(
    start: Start, authority: Authority, code: str, compression: Compression
) -> None:
    nsqd = start(*authority.options("127.0.0.1"), "-tls-required=tcp-https")
    async with opened(config([nsqd], tls=verifying(authority.file), compression=compression)) as transport:
        await transport.ensure(*subscribed(code, "billing"))
        consumer = await transport.consume(code, "billing")
        await publish(transport, code, range(500))
        assert numbers(await receive(consumer, 500)) == list(range(500))
        (client,) = nsqd.stats(code, "billing")["clients"]
        assert client["tls"]
        assert client["snappy"] == (compression is Compression.SNAPPY)
        assert client["deflate"] == (compression is Compression.DEFLATE)


async def test_a_big_body_passes_encrypted(start: Start, authority: Authority, code: str) -> None:
    nsqd = start(*authority.options("127.0.0.1"))
    body = bytes(range(256)) * 8192
    async with opened(config([nsqd], tls=verifying(authority.file))) as transport:
        await transport.ensure(*subscribed(code, "billing"))
        assert await transport.publish(outgoing(code, [1], body)) == [True]
        (found,) = await receive(await transport.consume(code, "billing"), 1)
        assert found.message.body == body


async def test_an_nsqd_that_wants_tls_for_its_http_api_too_is_served(
    start: Start, authority: Authority, code: str
) -> None:
    nsqd = start(*authority.options("127.0.0.1"), "-tls-required=true")
    async with opened(config([nsqd], tls=verifying(authority.file))) as transport:
        await transport.ensure(*subscribed(code, "billing"))
        await publish(transport, code, range(3))
        assert numbers(await receive(await transport.consume(code, "billing"), 3)) == [0, 1, 2]
        await eventually(lambda: (transport.lags() or {}).get((code, "billing")) == (0, None))


async def test_an_nsqd_whose_https_port_is_another_one_after_a_restart_is_served(
    start: Start, authority: Authority, code: str
) -> None:
    nsqd = start(*authority.options("127.0.0.1"), "-tls-required=true")
    async with opened(config([nsqd], tls=verifying(authority.file))) as transport:
        await transport.ensure(*subscribed(code, "billing"))
        nsqd.kill()
        nsqd.start()  # the system chooses the port
        await eventually(lambda: well(transport))
        await publish(transport, code, range(3))


@pytest.mark.parametrize("name", ["127.0.0.1", "nsqd.example.org"])
async def test_a_certificate_of_somebody_else_or_for_another_name_is_refused(
    start: Start, authority: Authority, tmp_path: Path, code: str, name: str
) -> None:
    nsqd = start(*authority.options(name))
    trusted = authority.file
    if name == "127.0.0.1":
        trusted = tmp_path / "other.pem"
        trustme.CA().cert_pem.write_to_path(str(trusted))
    async with opened(config([nsqd], tls=verifying(trusted))) as transport:
        with pytest.raises(TransportRefused, match="certificate"):
            await transport.ensure(*subscribed(code, "billing"))
        assert await transport.publish(outgoing(code, [0])) == [False]
        assert "TLS: certificate " in str(transport.conditions()[f"nsqd {nsqd.tcp}"])


async def test_tls_is_never_left_out(alone: nsq.NsqdServer, code: str) -> None:
    async with opened(config([alone], tls=ssl.create_default_context())) as transport:
        with pytest.raises(TransportRefused, match="offers no TLS"):
            await transport.ensure(*subscribed(code, "billing"))


@pytest.mark.parametrize("where", ["true", "tcp-https"])
async def test_an_nsqd_that_wants_tls_says_so_to_one_without(
    start: Start, authority: Authority, code: str, where: str
) -> None:
    nsqd = start(*authority.options("127.0.0.1"), f"-tls-required={where}")
    async with opened(config([nsqd])) as transport:
        with pytest.raises(TransportRefused, match="TLS"):
            await transport.ensure(*subscribed(code, "billing"))


def test_an_authority_that_cannot_be_read_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot read certificates"):
        verifying(tmp_path / "nowhere.pem")
    (tmp_path / "empty.pem").touch()
    with pytest.raises(ConfigurationError, match="cannot read certificates"):
        verifying(tmp_path / "empty.pem")


async def test_a_secret_opens_the_door(start: Start, auth: AuthServer, code: str) -> None:
    auth.permissions["s3cret"] = ["publish", "subscribe"]
    nsqd = start(f"-auth-http-address={auth.address}")
    async with opened(config([nsqd], auth_secret="s3cret")) as transport:
        await transport.ensure(*subscribed(code, "billing"))
        await publish(transport, code, range(3))
        assert numbers(await receive(await transport.consume(code, "billing"), 3)) == [0, 1, 2]
        assert well(transport)


async def test_a_secret_passes_after_tls_and_compression(
    start: Start, auth: AuthServer, authority: Authority, code: str
) -> None:
    auth.permissions["s3cret"] = ["publish", "subscribe"]
    nsqd = start(f"-auth-http-address={auth.address}", *authority.options("127.0.0.1"))
    settings = config(
        [nsqd], auth_secret="s3cret", tls=verifying(authority.file), compression=Compression.SNAPPY, timeout=5.0
    )
    async with opened(settings) as transport:
        await transport.ensure(*subscribed(code, "billing"))
        await publish(transport, code, range(3))
        assert numbers(await receive(await transport.consume(code, "billing"), 3)) == [0, 1, 2]


@pytest.mark.parametrize(("secret", "why"), [("wrong", "E_UNAUTHORIZED"), ("", "asks for a secret")])
async def test_a_wrong_or_missing_secret_is_refused(
    start: Start, auth: AuthServer, code: str, secret: str, why: str
) -> None:
    nsqd = start(f"-auth-http-address={auth.address}")
    async with opened(config([nsqd], auth_secret=secret)) as transport:
        with pytest.raises(TransportRefused, match=why):
            await transport.ensure(*subscribed(code, "billing"))
        assert await transport.publish(outgoing(code, [0])) == [False]
        # As soon as it is let in, it goes on by itself.
        if secret:
            auth.permissions[secret] = ["publish", "subscribe"]
            await publish(transport, code, [0])


async def test_who_may_only_subscribe_is_told_and_disturbs_nobody(start: Start, auth: AuthServer, code: str) -> None:
    auth.permissions |= {"reads": ["subscribe"], "writes": ["publish"]}
    nsqd = start(f"-auth-http-address={auth.address}")
    async with opened(config([nsqd], auth_secret="reads")) as reader:
        await reader.ensure(*subscribed(code, "billing"))
        consumer = await reader.consume(code, "billing")
        assert await reader.publish(outgoing(code, [0])) == [False]
        await eventually(lambda: f"not allowed to {code}" in str(reader.conditions()[f"nsqd {nsqd.tcp}"]))
        async with opened(config([nsqd], auth_secret="writes")) as writer:
            await writer.ensure(*subscribed(code, "billing"))
            await publish(writer, code, [1])
            assert numbers(await receive(consumer, 1)) == [1]
            await writer.consume(code, "billing")
            await eventually(lambda: "E_UNAUTHORIZED" in "".join(map(str, writer.conditions().values())))
