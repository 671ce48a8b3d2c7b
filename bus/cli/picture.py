"""The chain of a strictly ordered destination, as lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bus.cli.output import plain

_NOT_KNOWN = "?"


def chain_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the chain as lines: segments, oldest first, then sender and reader, groups, and obstacles."""
    code = plain(found["destination"])
    yield f"{code}: strict order, epoch {found['epoch']}" if found["known"] else f"{code}: chain unknown"
    if found["known"]:
        yield "  " + (
            " -> ".join(map(_segment, found["consume"])) or "nothing to read: no group has accepted a message"
        )
        yield f"sender    {_holder(found['sender'])}"
        yield f"reader    {_holder(found['reader'])}"
        if found["producer"] is not None:
            yield f"producer  {_holder(found['producer'])}"
        yield f"accepts   {', '.join(map(plain, found['send'])) or '-'}"
    for group in found["groups"]:
        yield f"group     {_group(group)}"
    for one in found["blocked"]:
        yield f"blocked   {plain(one['what'])}"
        yield f"          {plain(one['next_step'])}"


def _segment(segment: Mapping[str, Any]) -> str:
    parts = [f"{one['subscription']} {_count(one['waiting'])}" for one in segment["waiting"]]
    parts += [f"{name} drained" for name in segment["drained"]]
    mark = ", accepts messages" if segment["current"] else ", lost its disks" if segment["lost"] else ""
    return plain(f"[{segment['group']} #{segment['epoch']}{mark}: {', '.join(parts) or 'no reader'}]")


def _count(waiting: int | None) -> str:
    return f"{_NOT_KNOWN if waiting is None else waiting} queued"


def _holder(holder: Mapping[str, Any] | None) -> str:
    if holder is None:
        return "none"
    name = holder["node"] or holder["owner"]
    where = " ".join(part for part in (name, holder["url"]) if part)
    return plain(f"{where or '-'}, epoch {holder['epoch']}{', unreachable' if holder['alive'] is False else ''}")


def _group(group: Mapping[str, Any]) -> str:
    said = {
        "unreachable": group["answers"] is False,
        "empty": group["empty"] is True,
        "has messages": group["empty"] is False,
        "missing queues": group["behind"],
    }
    told = [text for text, holds in said.items() if holds] + [group["trouble"]] * bool(group["trouble"])
    return plain(f"{group['name']}: {'; '.join(told) or 'ok'}")
