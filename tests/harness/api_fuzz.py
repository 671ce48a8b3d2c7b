"""Runs schemathesis over a running bus's whole OpenAPI document, in a process of its own, for a bounded time."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.harness.process import Child, module

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "ignored_auth",
    "unsupported_method",
    "allow_header_conformance",
)
_REFUSED = (400, 401, 403, 404, 405, 409, 413, 414, 415, 422, 429, 431)
# A round asks every operation so many things, so that all get their share of the time.
_EACH_ROUND = 12
_KNOWN_SHARE = 0.6


class Key(NamedTuple):
    """An API key."""

    id: str
    secret: str


class Fuzzed(NamedTuple):
    """What came of a run: schemathesis's report and log, and of each operation how often each status was answered."""

    report: dict[str, Any]
    log: str
    answered: dict[str, dict[str, int]]

    @property
    def done(self) -> set[str]:
        """The operations that did at least once what was asked."""
        return {label for label, counts in self.answered.items() if any(status[0] in "23" for status in counts)}


def fuzz(folder: Path, url: str, key: Key, known: Mapping[str, Sequence[str]], *, seconds: int, seed: int) -> Fuzzed:
    """Ask for this long.

    Parameters
    ----------
    key
        An admin's; the run never revokes it.
    known
        Values for which something is there, by the place and name of a parameter (``path.code``, ``body.url``).
    """
    config, report, tally, log = (folder / f"fuzz.{name}" for name in ("toml", "json", "tally", "log"))
    config.write_text(_config(key, known, seconds, seed))
    options = ("--report", "json", "--report-json-path", report)
    argv = module("schemathesis.cli", "--config-file", config, "--no-color", "run", *options, f"{url}/openapi.json")
    env = {"FUZZ_KEY_ID": key.id, "FUZZ_KNOWN": json.dumps(known), "FUZZ_TALLY": str(tally)}
    with Child(argv, log=log, env=env) as child:
        child.wait(within=seconds + 60)
        assert report.exists(), child.output()
    return Fuzzed(json.loads(report.read_text()), log.read_text(), json.loads(tally.read_text()))


def _config(key: Key, known: Mapping[str, Sequence[str]], seconds: int, seed: int) -> str:
    checks = "\n".join(f"{check}.enabled = true" for check in CHECKS)
    words = "\n".join(f"{_word(place)} = {{ values = {json.dumps(list(values))} }}" for place, values in known.items())
    places = "\n".join(
        f'"{place}" = {{ dictionary = "{_word(place)}", probability = {_KNOWN_SHARE} }}' for place in known
    )
    return f"""
seed = {seed}
max-time = {seconds}
workers = 1
continue-on-failure = true
request-timeout = 30
hooks = "tests.harness.api_fuzz_hooks"
cache.enabled = false

[auth.openapi.key]
bearer = "{key.secret}"

[generation]
max-examples = {_EACH_ROUND}
database = "none"

[phases]
examples.enabled = false

[checks]
enabled = false
{checks}
negative_data_rejection = {{ enabled = true, expected-statuses = {list(_REFUSED)} }}

[dictionaries]
{words}

[parameters]
{places}
"""


def _word(place: str) -> str:
    return place.replace(".", "-")
