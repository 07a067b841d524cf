"""Spec and domain in a stored plan, of a release or of a wave, without the rest: for what refusals tell."""

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

from dp_spark.errors import Refusal
from dp_spark.release.spec.changes import domain_changes, spec_changes
from dp_spark.uldp import Domain

_UNREADABLE = ValueError, KeyError, TypeError, AttributeError, zlib.error, Refusal


def stored_spec(plan: bytes) -> Mapping[str, Any] | None:
    """The spec's canonical JSON, read; None where these bytes are no plan that this version knows."""
    try:
        spec = _body(plan)["spec"]
    except _UNREADABLE:
        return None
    return spec if isinstance(spec, Mapping) else None


def stored_source(plan: bytes) -> str | None:
    """Where the answers of a stored plan of a wave are; None of a frame, or where it cannot be read.

    A plan from before it was stored has the path as it was written; a relative one starts from the directory
    of the profile.
    """
    try:
        body = _body(plan)
        source = body.get("source") or body["spec"]["input"]["path"]
    except _UNREADABLE:
        return None
    return source if isinstance(source, str) else None


def told_spec_changes(plan: bytes, given: Mapping[str, Any] | None) -> str:
    """What `given` has otherwise than the spec of a stored plan, to end a sentence with; or empty."""
    stored = stored_spec(plan)
    return "" if stored is None or given is None else _told(spec_changes(stored, given))


def told_domain_changes(plan: bytes, now: bytes) -> str:
    """What the domain of the second stored plan has otherwise, to end a sentence with; or empty."""
    try:
        before, after = (domain_from_json(_body(each)["domain"]) for each in (plan, now))
    except _UNREADABLE:
        return ""
    return _told(domain_changes(before, after))


def domain_to_json(domain: Domain) -> dict[str, Any]:
    """A domain as plans store it, under its own digest."""
    return {
        "columns": domain.columns,
        "categories": domain.categories,
        "flags": b64encode(zlib.compress(domain.flags)).decode(),
        "sha256": domain.digest,
    }


def domain_from_json(stored: Mapping[str, Any]) -> Domain:
    """The domain that `domain_to_json` wrote.

    Raises:
        ValueError: it does not have its digest.
    """
    flags = zlib.decompress(b64decode(stored["flags"]))
    domain = Domain(tuple(stored["columns"]), tuple(map(tuple, stored["categories"])), flags)
    if domain.digest != stored["sha256"]:
        raise ValueError("the domain of the stored plan is damaged")
    return domain


def _body(plan: bytes) -> Mapping[str, Any]:
    """What a plan's bytes hold: that of a wave has one level more."""
    document: Mapping[str, Any] = json.loads(plan)
    body: Mapping[str, Any] = document.get("plan", document)
    return body


def _told(changes: tuple[str, ...]) -> str:
    return f": {'; '.join(changes)}" if changes else ""
