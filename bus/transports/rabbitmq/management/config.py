"""The address of a cluster's management plugin."""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from urllib.parse import unquote

from bus.errors import ConfigurationError
from bus.transports.rabbitmq.config import ClusterUrl, Host

AUTO: Final = "auto"
_PORTS: Final = {False: 15_672, True: 15_671}
_URL: Final = re.compile(
    r"(?P<scheme>https?)://(?:(?P<user>[^:@/]*):(?P<password>[^@/]*)@)?(?P<hosts>[^/?@#]+)(?P<path>/[^?#]*)?"
)
_HOST: Final = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[^:\[\],\s]+)(?::[0-9]{1,5})?")


class ManagementUrl(NamedTuple):
    """The addresses and options for requests to the management plugin.

    Attributes
    ----------
    bases
        URLs without a slash at their end, any of which reports on the whole cluster.
    vhost
        That of the bus's queues.
    options
        For TLS, as in the URL of the cluster.
    """

    bases: tuple[str, ...]
    user: str
    password: str
    vhost: str
    options: dict[str, str]


def parse_management(text: str, cluster: ClusterUrl, setting: str) -> ManagementUrl:
    """Read ``http://user:password@host:15672,host:15672``, or ``auto`` for the hosts and the login of the cluster.

    Parameters
    ----------
    setting
        What the value is called, for the error.

    Raises
    ------
    ConfigurationError
        It is not of this form; the text never shows the password.
    """
    if text.strip() == AUTO:
        scheme = "https" if cluster.tls else "http"
        bases = tuple(f"{scheme}://{_bracketed(host)}:{_PORTS[cluster.tls]}" for host in cluster.hosts)
        return ManagementUrl(bases, cluster.user, cluster.password, cluster.vhost, cluster.options)
    found = _URL.fullmatch(text.strip())
    hosts = found["hosts"].split(",") if found is not None else []
    if found is None or not all(map(_HOST.fullmatch, hosts)):
        raise ConfigurationError(
            f"{setting} is not of the form http://user:password@host:15672,host:15672",
            hint="or auto for the hosts, the user and the password of the cluster",
        )
    path = (found["path"] or "").rstrip("/")
    user = unquote(found["user"]) if found["user"] is not None else cluster.user
    password = unquote(found["password"]) if found["password"] is not None else cluster.password
    bases = tuple(f"{found['scheme']}://{host}{path}" for host in hosts)
    return ManagementUrl(bases, user, password, cluster.vhost, cluster.options)


def _bracketed(host: Host) -> str:
    return f"[{host.name}]" if ":" in host.name else host.name
