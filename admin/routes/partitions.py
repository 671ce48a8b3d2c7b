"""Routes of the store's partitions."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import Field

from admin.deps import Configurer, ServicesDep
from admin.models.base import Body, Whole
from admin.models.responses.operations import DroppedView
from admin.requests.audited import AuditedRoute, NotingDep
from admin.showing.archives import ArchivedDay
from bus.domain.tracing.contents import Contents
from bus.domain.tracing.partition import PartitionLabel
from bus.errors import NotFound

router = APIRouter(prefix="/partitions", tags=["operations"], route_class=AuditedRoute)


class ContentsBody(Body):
    """The contents of a partition in an archive: counts and a checksum as by ``bus.domain.tracing.contents``."""

    messages: Annotated[Whole, Field(ge=0, lt=2**63)]
    deliveries: Annotated[Whole, Field(ge=0, lt=2**63)]
    checksum: Annotated[str, Field(pattern=r"^[0-9a-f]{30}$")]
    lake: Annotated[
        str, Field(max_length=1024, description="where the archive is, to tell who looks for a message")
    ] = ""


@router.post("/{name}/drop")
async def drop_partition(
    name: Annotated[str, Path(description="A day and a retention class, such as 20260131-30d.")],
    body: ContentsBody,
    services: ServicesDep,
    noting: NotingDep,
    _: Configurer,
) -> DroppedView:
    """Drop a partition of the store that an archive has.

    The bus counts the partition itself and drops it only if it has exactly these contents, all of it is finished, and
    nothing was written to it meanwhile (else 409, and nothing is dropped). It reads all of the partition, which takes
    about a minute for a million messages. From then on a search for a message of that day names the archive.
    """
    partition = PartitionLabel.of_name(name)
    if partition is None:
        raise NotFound(f"{name!r} names no partition", hint="a day and a retention class, such as 20260131-30d")
    contents = Contents(body.messages, body.deliveries, body.checksum)
    await services.context.store.drop(partition, contents)
    day = ArchivedDay(partition.name, body.lake, contents.messages, services.context.clock.now())
    await services.archives.note(day)
    noting.compare(contents._asdict(), {})
    return DroppedView(dropped=partition.name, messages=contents.messages)
