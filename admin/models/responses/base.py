"""The base of responses of the admin API."""

from __future__ import annotations

from typing import Generic, TypeGuard, TypeVar, get_origin

import msgspec
from fastapi import Response
from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

Item = TypeVar("Item")


class View(msgspec.Struct, kw_only=True):
    """An answer, or a part of one, as the API writes it; a field that is ``UNSET`` is left out.

    A route that declares one is taken by FastAPI as it is: the type checker has checked its fields already.
    """

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Have msgspec, and not Pydantic, encode it."""
        written = core_schema.plain_serializer_function_ser_schema(msgspec.to_builtins)
        return core_schema.any_schema(serialization=written)


def encoded(view: View) -> Response:
    """Return a long answer as encoded JSON, so that FastAPI does not convert it to dictionaries first."""
    return Response(msgspec.json.encode(view), media_type="application/json")


def is_view(kind: object) -> TypeGuard[type[View]]:
    """Whether a type is a ``View``, or a generic one with its parameter such as ``Listing[KeyView]``."""
    plain = get_origin(kind) or kind
    return isinstance(plain, type) and issubclass(plain, View)


class Listing(View, Generic[Item], kw_only=True):
    """One page of a list; ``next`` is the cursor of the one that follows, null after the last."""

    items: list[Item]
    next: str | None = None
