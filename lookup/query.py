"""The query of a client: the target of ``/lookup``."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import parse_qs

from bus.domain.routing.rooms import Access

LOOKUP: Final = b"/lookup"
_MOST_TARGETS: Final = 4096
_MOST_FIELDS: Final = 20
_LONGEST: Final = 2_000


class Query(NamedTuple):
    """A topic, what for, and whether the number of its partitions is asked for as well."""

    topic: str
    access: Access = Access.READ
    with_meta: bool = False


class MalformedQuery(ValueError):
    """A question that nsqlookupd refuses; the text is its own."""


@lru_cache(maxsize=_MOST_TARGETS)
def read_query(query: bytes) -> Query:
    """Read the part of a target behind the question mark.

    Raises
    ------
    Malformed
        It names no topic, or an access that is none.
    """
    try:
        if len(query) > _LONGEST:
            raise MalformedQuery("INVALID_REQUEST")
        found = parse_qs(query.decode("ascii"), max_num_fields=_MOST_FIELDS)
    except ValueError as error:
        raise MalformedQuery("INVALID_REQUEST") from error
    topic = found.get("topic", [""])[0]
    if not topic:
        raise MalformedQuery("MISSING_ARG_TOPIC")
    access = found.get("access", [Access.READ])[0]
    if access not in list(Access):
        raise MalformedQuery("INVALID_ARG_ACCESS")
    return Query(topic, Access(access), found.get("metainfo", [""])[0] == "true")
