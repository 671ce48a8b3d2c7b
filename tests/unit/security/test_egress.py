"""Refused URLs and addresses: a table of every spelling we know of, and random ones."""

# ruff: noqa: E501, RUF001 - a table of odd spellings

from __future__ import annotations

import ipaddress
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.errors import ConfigurationError, EgressDenied
from bus.security.egress import EgressPolicy

IPV4_DENIED = [
    *("0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.100.100.200", "100.127.255.255"),
    *("127.0.0.1", "127.255.255.254", "168.63.129.16", "169.254.0.1", "169.254.169.254", "169.254.170.2", "172.16.0.1"),
    *("172.31.255.255", "192.0.0.1", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.0.1", "192.168.255.255"),
    *("198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1"),
    "255.255.255.255",
]
IPV4_ALLOWED = ["1.1.1.1", "8.8.8.8", "9.255.255.255", "100.63.255.255", "100.128.0.0", "172.15.0.1", "172.32.0.1"]
IPV6_DENIED = [
    *("::", "::1", "::2", "::ffff:0:127.0.0.1", "64:ff9b:1::8.8.8.8", "100::1", "2001::1", "2001:10::1", "2001:db8::1"),
    *("2002:808:808::1", "3fff::1", "4000::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fd20:ce::254", "fdff::1"),
    *("fe80::1", "febf::1", "fec0::1", "feff::1", "ff00::1", "ff02::1", "ff0e::1"),
    *("2001:0:4136:e378:8000:63bf:3fff:fdd2", "2606:4700::5efe:127.0.0.1", "2606:4700::200:5efe:10.0.0.1"),
]
IPV6_ALLOWED = [
    "2606:4700:4700::1111",
    "2001:4860:4860::8888",
    "::ffff:8.8.8.8",
    "64:ff9b::8.8.8.8",
    "2a00:1450::5efe:808:808",
]


def _inside(address: str) -> list[str]:
    """Return IPv6 addresses that carry an IPv4 one."""
    number = int(ipaddress.IPv4Address(address))
    high, low = number >> 16, number & 0xFFFF
    hidden = ~number & 0xFFFFFFFF
    return [
        f"::ffff:{address}",
        f"::ffff:{high:x}:{low:x}",
        f"::{address}",
        f"64:ff9b::{address}",
        f"64:ff9b::{high:x}:{low:x}",
        f"64:ff9b:1::{address}",
        f"2002:{high:x}:{low:x}::1",
        f"2001:0:102:304:0:0:{hidden >> 16:x}:{hidden & 0xFFFF:x}",
        f"2606:4700::5efe:{high:x}:{low:x}",
        f"2606:4700::200:5efe:{high:x}:{low:x}",
    ]


def _spellings(address: str) -> list[str]:
    """Return hosts that getaddrinfo reads as this IPv4 address, or that other libraries might."""
    a, b, c, d = (int(part) for part in address.split("."))
    number = int(ipaddress.IPv4Address(address))
    wide = str.maketrans("0123456789", "\N{FULLWIDTH DIGIT ZERO}１２３４５６７８９")
    return [
        str(number),
        f"0x{number:x}",
        f"0X{number:X}",
        f"0{number:o}",
        f"{a}.{number & 0xFFFFFF}",
        f"{a}.{b}.{number & 0xFFFF}",
        f"0x{a:x}.0x{b:x}.0x{c:x}.0x{d:x}",
        f"0x{a:02x}.{b}.{c}.{d}",
        f"0{a:o}.0{b:o}.0{c:o}.0{d:o}",
        f"000{a:o}.{b}.{c}.{d}",
        f"0x{a:x}.{number & 0xFFFFFF}",
        f"{address}.",
        f"{address}..",
        address.translate(wide),
        address.replace(".", "\N{IDEOGRAPHIC FULL STOP}"),
        address.replace(".", "\N{FULLWIDTH FULL STOP}"),
        address.replace(".", "%2e"),
        "".join(f"%{ord(c):02x}" for c in address),
        f"{address}%00",
        f"[{address}]",
        f"[::ffff:{address}]",
        f"[::FFFF:{address}]",
        f"[0:0:0:0:0:ffff:{address}]",
        f"[::{address}]",
        f"[64:ff9b::{address}]",
        f"[::ffff:{address}%25eth0]",
        f"[::ffff:{address}%eth0]",
        f"{address}:0",
        f"{address}:65536",
        f"{address}:",
        f"{address}:80:80",
        f"user@{address}",
        f"example.com@{address}",
        f"example.com:80@{address}",
        f"{address}#example.com",
        f"{address}\\@example.com",
        f"{address}\t",
        f" {address}",
        f"{address}.1",
    ]


DENIED_URLS = [
    *(f"http://{host}/" for target in ("127.0.0.1", "10.1.2.3", "169.254.169.254") for host in _spellings(target)),
    *(f"https://{address}/latest/meta-data" for address in IPV4_DENIED),
    *(f"http://[{address}]:8080/" for address in IPV6_DENIED),
    *(f"http://[{address}]/" for target in ("127.0.0.1", "192.168.1.1") for address in _inside(target)),
    *("http://localhost/", "http://LOCALHOST:80/", "http://localhost./", "http://a.localhost/", "http://ⓛocalhost/"),
    *("http://metadata.google.internal/", "http://metadata/", "http://instance-data/latest", "http://127.1/", "http://0/"),
    *("http://0x7f.1/", "http://0177.1/", "http://①②⑦.⓪.⓪.①/", "http://127。0。0。1/", "http://0x7f000001/", "http://017700000001"),
    *("ftp://a.example/", "file:///etc/passwd", "gopher://a.example/", "javascript:alert(1)", "data:text/plain,x", "ws://a.example"),
    *("//a.example/", "a.example", "http:a.example", "http:/a.example", "http//a.example", "", " ", "http://", "https://", "http:///x"),
    *("http://?x", "http://#x", "http://:80/", "http://a.example:abc/", "http://a.example:-1/", "http://a.example:99999/"),
    *("http://a.example:8８/", "http://a.example：80/", "http://a.example／x", "http://a.example:80 80/", "http://a.example:+80/"),
    *("http://u:p@a.example/", "http://u@a.example/", "http://@a.example/", "http://:@a.example/", "http://a.example#frag"),
    *("http://a.example/#", "http://a.example/x#y", "http://a b.example/", "http://a.example/a b", "http://a.example/\r\nx: y"),
    *("http://a.example/\n", "http://a.example/\t", "http://a.example/\0", "\thttp://a.example/", "http://a.exa\nmple/", "http:\\\\a.example"),
    *("http://a.example\\b/", "http://a..example/", "http://.a.example/", "http://-a.example/", "http://a-.example/", "http://a_.example-/"),
    *("http://[::1", "http://::1/", "http://[]/", "http://[g::1]/", "http://[1.1.1.1]/", "http://[::1]x/", "http://x[::1]/"),
    *("http://[fe80::1%25eth0]/", "http://[fe80::1%eth0]/", "http://[2606:4700::1%251]/", "http://[::1]:/", "http://[::1]]/"),
    *("http://" + "a" * 64 + ".example/", "http://" + "a." * 130 + "example/", "http://a.example:80:80/", "http://256.256.256.256/"),
    *("http://1.2.3.4.5/", "http://1.2.3.256/", "http://0x1ffffffff/", "http://4294967296/", "http://08.8.8.8/", "http://0xg.1/x/y/1.0x"),
    *("http://a.example,b.example/", "http://a.example;b/", "http://a$b/", "http://a*b/", "http://a&b/", "http://(a)/", "http://a'b/"),
    *("http://\N{SOFT HYPHEN}/", "http://\N{ZERO WIDTH SPACE}/", "http://\N{ZERO WIDTH SPACE}127.0.0.1/", "http://xn--/", "http://a.1/"),
    *("http://☃.example/", "http://a\N{ZERO WIDTH JOINER}.example/", "http://ß..example/", "http://-ß.example/", "http://①②⑦.0.0.1/"),
    *("http://℀.example/", "http://a／b.example/", "http://a？b.example/", "http://a＠b.example/", "http://a：80.example/"),
]  # fmt: skip
ALLOWED_URLS = [
    ("http://a.example", "a.example", 80, "a.example", "/"),
    ("HTTPS://A.Example./x?y=z", "a.example", 443, "a.example", "/x?y=z"),
    ("https://a.example:443/", "a.example", 443, "a.example", "/"),
    ("https://a.example:08443?q", "a.example", 8443, "a.example:8443", "/?q"),
    ("http://8.8.8.8/", "8.8.8.8", 80, "8.8.8.8", "/"),
    ("http://[2606:4700:4700:0:0:0:0:1111]:81/", "2606:4700:4700::1111", 81, "[2606:4700:4700::1111]:81", "/"),
    (
        "http://bücher.example/ü%20?ß=é",
        "xn--bcher-kva.example",
        80,
        "xn--bcher-kva.example",
        "/%C3%BC%20?%C3%9F=%C3%A9",
    ),
    ("http://faß.example/", "xn--fa-hia.example", 80, "xn--fa-hia.example", "/"),
    ("http://FAẞ.a_b.Example。/", "xn--fa-hia.a_b.example", 80, "xn--fa-hia.a_b.example", "/"),
    ("http://βόλος.example/", "xn--nxasmm1c.example", 80, "xn--nxasmm1c.example", "/"),
    ("http://my_service.svc-1.a.example/", "my_service.svc-1.a.example", 80, "my_service.svc-1.a.example", "/"),
    ("http://a.example/p;x=1/@b:c?u=http://10.0.0.1/", "a.example", 80, "a.example", "/p;x=1/@b:c?u=http://10.0.0.1/"),
    ("http://127.0.0.1.nip.example/", "127.0.0.1.nip.example", 80, "127.0.0.1.nip.example", "/"),
]


def test_the_table_is_long():
    assert len(set(DENIED_URLS)) >= 245


@pytest.mark.parametrize("url", DENIED_URLS)
def test_denied_url(url):
    with pytest.raises(EgressDenied) as caught:
        EgressPolicy().check_url(url)
    assert str(caught.value)


@pytest.mark.parametrize(("url", "host", "port", "authority", "path"), ALLOWED_URLS)
def test_allowed_url(url, host, port, authority, path):
    endpoint = EgressPolicy().check_url(url)
    assert (endpoint.host, endpoint.port, endpoint.authority, endpoint.path) == (host, port, authority, path)
    assert endpoint.scheme == url.partition(":")[0].lower()


@pytest.mark.parametrize("address", [*IPV4_DENIED, *IPV6_DENIED, "nonsense", "", "1.2.3", "127.0.0.1/8"])
def test_denied_address(address):
    with pytest.raises(EgressDenied, match=r"address"):
        EgressPolicy().check_address(address)


@pytest.mark.parametrize("address", [*IPV4_ALLOWED, *IPV6_ALLOWED])
def test_allowed_address(address):
    EgressPolicy().check_address(address)


@pytest.mark.parametrize("address", IPV4_DENIED)
def test_hidden_address(address):
    for outer in _inside(address):
        with pytest.raises(EgressDenied):
            EgressPolicy().check_address(outer)


def test_zone_is_not_a_way_around():
    with pytest.raises(EgressDenied, match="link-local"):
        EgressPolicy().check_address("fe80::1%eth0")


def test_loopback_can_be_allowed():
    policy = EgressPolicy(allow_loopback=True)
    for host in ("127.0.0.1", "[::1]", "localhost", "0x7f.1", "a.localhost", "[::ffff:127.0.0.1]"):
        policy.check_url(f"http://{host}:8700/")
    for host in ("10.0.0.1", "0.0.0.0", "169.254.169.254", "[::ffff:10.0.0.1]"):
        with pytest.raises(EgressDenied):
            policy.check_url(f"http://{host}/")


def test_networks_can_be_allowed():
    policy = EgressPolicy(allow=["10.1.0.0/16", "192.168.7.7", "fd12::/16"])
    for address in ("10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::10.1.2.3", "192.168.7.7", "fd12::9"):
        policy.check_address(address)
    for address in ("10.2.0.1", "192.168.7.8", "::10.1.2.3", "2002:a01:203::1", "fd13::9"):
        with pytest.raises(EgressDenied):
            policy.check_address(address)


def test_hosts_can_be_allowed():
    policy = EgressPolicy(allow=["Internal.Example."])
    policy.check_address("10.0.0.1", "internal.example")
    for host in ("", "other.example", "sub.internal.example"):
        with pytest.raises(EgressDenied):
            policy.check_address("10.0.0.1", host)


def test_deny_goes_before_allow():
    policy = EgressPolicy(allow=["10.0.0.0/8", "good.example"], deny=["10.6.6.0/24", "8.8.8.8", "evil.example"])
    policy.check_address("10.6.7.1")
    for address in ("10.6.6.1", "::ffff:10.6.6.1", "8.8.8.8", "64:ff9b::8.8.8.8"):
        with pytest.raises(EgressDenied, match="setting"):
            policy.check_address(address, "good.example")
    with pytest.raises(EgressDenied, match="setting"):
        policy.check_url("http://EVIL.example./")
    with pytest.raises(EgressDenied, match="setting"):
        policy.check_address("1.1.1.1", "evil.example")


@pytest.mark.parametrize(
    "entry", ["", "10.0.0.0/33", "a b", "http://a.example/", "*.example", "℀.example", "[::1]", "300.1.1.1", "-a"]
)
def test_impossible_entries(entry):
    with pytest.raises(ConfigurationError, match="neither"):
        EgressPolicy(allow=[entry])
    with pytest.raises(ConfigurationError, match="neither"):
        EgressPolicy(deny=[entry])


@given(st.ip_addresses())
def test_every_address_has_one_verdict(address):
    """What Python calls not global is never allowed, except addresses that carry a public IPv4 one."""
    try:
        EgressPolicy().check_address(str(address))
    except EgressDenied:
        return
    carried = address in ipaddress.ip_network("64:ff9b::/96") or address.ipv4_mapped if address.version == 6 else False
    assert address.is_global or carried
    assert not address.is_multicast


@given(st.text(max_size=40))
def test_any_text_is_judged(text):
    for url in (text, f"http://{text}", f"http://{text}/"):
        try:
            endpoint = EgressPolicy().check_url(url)
        except EgressDenied:
            continue
        assert endpoint.host.isascii()
        assert endpoint.path.startswith("/")


@given(st.ip_addresses(v=4), st.sampled_from(range(11)))
def test_spellings_are_read_as_the_resolver_reads_them(address, form):
    """Whatever is allowed as a literal connects to the very address that was checked."""
    host = _spellings(str(address))[form]
    try:
        endpoint = EgressPolicy().check_url(f"http://{host}/")
    except EgressDenied:
        return
    found = socket.getaddrinfo(host, 80, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    assert endpoint.literals == tuple(entry[4][0] for entry in found)
