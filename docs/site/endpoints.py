"""The reference of the HTTP API, from its OpenAPI document."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, cast

import msgspec

from admin.app import make_app
from admin.services import AdminServices
from docs.site.markdown import code, table, words
from receiver.documented import PATHS

_HEAD: Final = """\
# The HTTP API

Written from `/openapi.json`, which every process with the role `admin` serves. `/v1` is the receiver's, for
producers; `/api/v1` is the admin's, for people and programs. Show a key as `Authorization: Bearer KEY`
([keys](../configuration.md#keys)); while none was made, loopback needs none. What is refused is a problem document
(RFC 9457), [below](#refusals).

"""
_FIRST: Final = "ingest"
_LAST_OK: Final = 400
Json = Mapping[str, Any]


class Operation(NamedTuple):
    """One operation of the document."""

    method: str
    path: str
    told: Json

    @property
    def title(self) -> str:
        """What it is called by."""
        return f"{self.method} {self.path}"


def page() -> str:
    """Return the page."""
    whole = document()
    lines = _HEAD.splitlines()
    for tag, operations in _by_tag(whole):
        lines += ["", f"## {tag.capitalize()}", ""]
        for operation in operations:
            lines += _section(operation)
    return "\n".join([*lines, *_refusals(whole["components"]["responses"]), *_schemas(whole["components"]["schemas"])])


def document() -> dict[str, Any]:
    """Return the document as a process with every role serves it."""
    offers = SimpleNamespace(documented=PATHS)
    services = SimpleNamespace(introspection=SimpleNamespace(offers=offers))  # all that the document asks of them
    return make_app(cast("AdminServices", services)).openapi()


def operations(whole: Json) -> Iterator[Operation]:
    """Yield all operations."""
    for path, methods in whole["paths"].items():
        for method, told in methods.items():
            yield Operation(method.upper(), path, told)


def _by_tag(whole: Json) -> list[tuple[str, list[Operation]]]:
    found: defaultdict[str, list[Operation]] = defaultdict(list)
    for operation in operations(whole):
        found[operation.told["tags"][0]].append(operation)
    return sorted(found.items(), key=lambda item: item[0] != _FIRST)


def _section(operation: Operation) -> list[str]:
    told = operation.told
    lines = [f"### {operation.title}", "", *_prose(told.get("description") or told["summary"])]
    parameters = [_parameter(each) for each in told.get("parameters", ())]
    if parameters:
        lines += table(("parameter", "in", "type", "meaning"), parameters)
    for media, body in told.get("requestBody", {}).get("content", {}).items():
        lines += [f"Body: {code(media)}, {_type(body.get('schema', {}))}.", ""]
    answers = [_answer(status, each) for status, each in told["responses"].items() if int(status) < _LAST_OK]
    refused = ", ".join(status for status in told["responses"] if int(status) >= _LAST_OK)
    return [*lines, f"{' '.join(answers)} Refused with {refused}{_who(told)}.", ""]


def _prose(text: str) -> list[str]:
    return [line for part in text.split("\n\n") for line in (words(part), "")]


def _parameter(each: Json) -> list[str]:
    schema = each.get("schema", {})
    needed = " (needed)" if each.get("required") and each["in"] != "path" else ""
    return [code(each["name"]) + needed, each["in"], _type(schema), words(each.get("description", ""))]


def _answer(status: str, each: Json) -> str:
    content = each.get("content", {})
    kinds = [
        _type(answer["schema"]) if media == "application/json" and answer.get("schema") else code(media)
        for media, answer in content.items()
    ]
    description = each.get("description", "")
    said = "" if description in ("", "Successful Response") else f" ({words(description).rstrip('.')})"
    return f"Answers {status}{said}{': ' if kinds else ''}{' or '.join(kinds)}."


def _who(told: Json) -> str:
    security = told.get("security")
    if not security:
        return "; needs no key"
    return "; asked for with a key" + (", or a session" if any("session" in each for each in security) else "")


def _refusals(responses: Mapping[str, Json]) -> list[str]:
    rows = [[name.removeprefix("Problem"), each["description"]] for name, each in responses.items()]
    return ["## Refusals", "", *table(("status", "meaning"), rows)]


def _schemas(schemas: Mapping[str, Json]) -> list[str]:
    lines = ["## Schemas", ""]
    for name, schema in sorted(schemas.items()):
        lines += [f'<h3 id="{anchor(name)}">{name}</h3>', "", *_prose(schema.get("description", "")), *_fields(schema)]
    return lines


def _fields(schema: Json) -> list[str]:
    properties = schema.get("properties")
    if not properties:
        return [f"{_type(schema)}.", ""]
    needed = schema.get("required", ())
    rows = [
        [code(name), _type(each), _default(each, name in needed), words(each.get("description", ""))]
        for name, each in properties.items()
    ]
    return table(("field", "type", "default", "meaning"), rows)


def _default(schema: Json, needed: bool) -> str:
    if needed:
        return "needed"
    value = schema.get("default")
    return "" if value is None else code(msgspec.json.encode(value).decode())


def anchor(name: str) -> str:
    """Return the id of a schema in the page."""
    return "schema-" + re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _type(schema: Json | bool) -> str:
    if isinstance(schema, bool):
        return "anything"
    if reference := schema.get("$ref"):
        name = reference.rsplit("/", 1)[-1]
        return f"[{name}](#{anchor(name)})"
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return " or ".join(_types(schema[several]))
    if "enum" in schema:
        return ", ".join(code(each) for each in schema["enum"] if each is not None)
    return _simple(schema)


def _types(schemas: Iterable[Json]) -> list[str]:
    return list(dict.fromkeys(_type(each) for each in schemas))


def _simple(schema: Json) -> str:
    kind: str | list[str] = schema.get("type", "anything")
    if isinstance(kind, list):
        return " or ".join(kind)
    if kind == "array":
        return f"list of {_type(schema.get('items', True))}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_type(schema['additionalProperties'])}"
    return f"{kind}{_bounds(schema)}"


def _bounds(schema: Json) -> str:
    unit = " characters" if schema.get("type") == "string" else ""
    low = schema.get("minimum", schema.get("minLength"))
    high = schema.get("maximum", schema.get("maxLength"))
    told = [f"{text} {value}" for text, value in (("at least", low), ("at most", high)) if value not in (None, "")]
    return f", {' and '.join(told)}{unit}" if told else ""
