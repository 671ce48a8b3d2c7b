"""The verb for an audited request."""

from __future__ import annotations

from typing import Final

from bus.localized_text import N_

_BY_METHOD: Final = {"GET": N_("read"), "PUT": N_("set"), "PATCH": N_("changed"), "DELETE": N_("removed")}
# What is made by a POST to a collection, by its path.
_COLLECTIONS: Final = {
    "alarm-silences": N_("silenced"),
    "alarm-trials": N_("tried the channels"),
    "discards": N_("discarded"),
    "keys": N_("made a key"),
    "lookup/migrations": N_("began a move"),
    "partitions": N_("changed"),
    "pipeline/runs": N_("wanted a run"),
    "resends": N_("resent"),
    "resends/deliveries": N_("resent"),
    "session": N_("logged in"),
    "session/oidc": N_("logged in"),
    "users": N_("made a user"),
    "findings": N_("told of a finding"),
    "configuration": N_("applied"),
}
# What is done to one of something, by the end of its path.
_DEEDS: Final = {
    "abandon": N_("gave up"),
    "acknowledge": N_("took on"),
    "advance": N_("advanced"),
    "cancel": N_("canceled"),
    "drop": N_("dropped"),
    "edit": N_("edited and resent"),
    "emptied-store": N_("accepted the empty store"),
    "pause": N_("paused"),
    "release-order": N_("released the order"),
    "release-producer": N_("released the producer"),
    "rerun": N_("resent again"),
    "resend": N_("resent"),
    "reseal": N_("sealed anew"),
    "reset-password": N_("reset the password"),
    "resume": N_("resumed"),
    "rollback": N_("rolled back"),
    "rotate-secret": N_("rotated the secret"),
    "sample": N_("sent a sample"),
    "skip": N_("skipped"),
}
OTHER: Final = N_("did")


def deed_of(method: str, resource: str) -> str:
    """Return the verb of a request, in English, to be translated; of a POST the path below ``/api/v1`` decides."""
    if method != "POST":
        return _BY_METHOD.get(method, OTHER)
    end = resource.rpartition("/")[2]
    return _COLLECTIONS.get(resource) or _DEEDS.get(end, OTHER)
