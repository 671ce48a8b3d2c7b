"""The only package that chooses concrete classes: opens what the settings name, and runs roles on it."""

from bus.bootstrap.context import ROLES, Asgi, Context, Role, Service, load_roles
from bus.bootstrap.opening import VERSION, check_settings, open_context, open_offline_keyring

__all__ = [
    "ROLES",
    "VERSION",
    "Asgi",
    "Context",
    "Role",
    "Service",
    "check_settings",
    "load_roles",
    "open_context",
    "open_offline_keyring",
]
