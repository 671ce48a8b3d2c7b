"""The only package that chooses concrete classes: opens what the settings name, and runs roles on it."""

from bus.bootstrap.brokers import open_health
from bus.bootstrap.common import SharedResources
from bus.bootstrap.context import Context
from bus.bootstrap.introspection import Introspection
from bus.bootstrap.opening import VERSION, check_settings, introspect, open_context, open_offline_keyring
from bus.bootstrap.role_services import Asgi, Fill, RoleServices, offers_of
from bus.bootstrap.roles import ROLES, Role, Service, compose, load_roles
from bus.bootstrap.store import embedded

__all__ = [
    "ROLES",
    "VERSION",
    "Asgi",
    "Context",
    "Fill",
    "Introspection",
    "Role",
    "RoleServices",
    "Service",
    "SharedResources",
    "check_settings",
    "compose",
    "embedded",
    "introspect",
    "load_roles",
    "offers_of",
    "open_context",
    "open_health",
    "open_offline_keyring",
]
