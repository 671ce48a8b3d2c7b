"""The settings of a bus as a file for people, without what is secret unless that is asked for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from bus.settings import Settings

NAME: Final = "bus.toml"
# Where it is put back says the command line.
_OF_THE_PLACE: Final = frozenset({"data"})
_SECRET: Final = frozenset(
    {
        *("api_key", "kafka_password", "metrics_key", "nsq_auth_secret", "oidc_client_secret", "otel_headers"),
        *("secret_key", "secret_key_old"),
    }
)
_PASSWORD: Final = re.compile(r"(://[^/@\s:]*:)[^/@\s]*@")
_HIDDEN: Final = r"\1***@"


def settings_file(settings: Settings, *, with_secrets: bool) -> bytes:
    """Return all settings that are not the defaults as TOML, from wherever they came."""
    return "".join(f"{line}\n" for line in _lines(settings, with_secrets=with_secrets)).encode()


def _lines(settings: Settings, *, with_secrets: bool) -> Iterator[str]:
    yield "# The settings of a bus when it was backed up, those of its environment included."
    given = settings.model_dump(mode="json", include=settings.model_fields_set - _OF_THE_PLACE)
    for name in sorted(given, key=lambda name: (isinstance(given[name], dict), name)):
        value = given[name]
        if value is None:
            continue
        if name in _SECRET and value and not with_secrets:
            yield f"# {name} was left out; bus backup --with-secrets keeps it."
        elif isinstance(value, dict):
            yield f"[{name}]"
            yield from (f"{_text(key)} = {_shown(each, with_secrets)}" for key, each in value.items())
        else:
            yield f"{name} = {_shown(value, with_secrets)}"


def _shown(value: Any, with_secrets: bool) -> str:
    if isinstance(value, str):
        return _text(value if with_secrets else _PASSWORD.sub(_HIDDEN, value))
    return _text(str(value)) if isinstance(value, Path) else json.dumps(value)


def _text(value: str) -> str:
    """Return a basic string of TOML, whose escapes are those of JSON."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
