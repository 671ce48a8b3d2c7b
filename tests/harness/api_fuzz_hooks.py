"""Hooks of schemathesis: the content of batches, and limits of a request."""

from __future__ import annotations

import atexit
import json
import os
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import msgspec
import schemathesis
from hypothesis import strategies as st

_WORDS = st.text(max_size=20) | st.integers() | st.none() | st.booleans()
_LINES = st.fixed_dictionaries(
    {"destination": st.sampled_from(("orders", "cards", "nowhere")) | st.text(max_size=10)},
    optional={
        "body": _WORDS | st.lists(_WORDS, max_size=3) | st.dictionaries(st.text(max_size=5), _WORDS, max_size=3),
        "body_base64": st.sampled_from(("AAEC", "no base64")) | _WORDS,
        "id": _WORDS,
        "biz_id": _WORDS,
        "key": _WORDS,
        "source": _WORDS,
        "headers": st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3) | _WORDS,
        "sent_at": st.sampled_from(("2026-01-01T00:00:00Z",)) | _WORDS,
        "deliver_at": st.sampled_from(("2026-01-01T00:00:00Z",)) | _WORDS,
        "idempotency_key": _WORDS,
    },
).map(msgspec.json.encode)

schemathesis.openapi.media_type(
    "application/x-ndjson", st.lists(_LINES | st.binary(max_size=20), max_size=5).map(b"\n".join)
)


TALLY: dict[str, Counter[int]] = defaultdict(Counter)


@schemathesis.hook
def before_load_schema(_: Any, document: dict[str, Any]) -> None:
    """Have parameters begin with values for which something is there."""
    known = json.loads(os.environ["FUZZ_KNOWN"])
    for operation in (found for operations in document["paths"].values() for found in operations.values()):
        for parameter in operation.get("parameters", ()):
            values = known.get(f"{parameter['in']}.{parameter['name']}")
            if values:
                parameter["examples"] = {f"known-{number}": {"value": value} for number, value in enumerate(values)}


@schemathesis.hook
def before_call(_: Any, case: schemathesis.Case, __: dict[str, Any]) -> None:
    """Leave the run's own key alone."""
    if (case.path_parameters or {}).get("key_id") == os.environ["FUZZ_KEY_ID"]:
        case.path_parameters["key_id"] = "another"


@schemathesis.hook
def after_call(_: Any, case: schemathesis.Case, response: schemathesis.Response) -> None:
    """Count what was answered."""
    TALLY[case.operation.label][response.status_code] += 1


@atexit.register
def save() -> None:
    """Leave the counts for the test."""
    Path(os.environ["FUZZ_TALLY"]).write_text(json.dumps(TALLY))
