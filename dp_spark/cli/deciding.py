"""`release ...`, `ledger charge` and `verify`: decisions of people, and proof that nobody else decided."""

import json
import sys
from pathlib import Path

from dp_spark.cli.setting_up import texts_of
from dp_spark.errors import LedgerRefused
from dp_spark.release.ledger import Decision, Head, Ledger, ReleaseId
from dp_spark.release.places import open_ledger, release_record
from dp_spark.release.profile import load_profile
from dp_spark.release.spec import load_spec

_WORDS = {
    "abort": Decision.ABORT,
    "abandon": Decision.ABANDON,
    "burn": Decision.BURN,
    "publish": Decision.PUBLISH,
}


def decide_command(word: str, release: str, *, reason: str, profile: str | None, as_json: bool) -> None:
    """Record a decision on a release; where it is to publish, publish and seal it too.

    Raises:
        Refusal: the release is unknown or its state does not allow that, or a sink refuses.
    """
    release_id, places = ReleaseId.parse(release), load_profile(profile)
    decision = _WORDS[word]
    if decision is Decision.PUBLISH:
        from dp_spark.frames.session import start_session  # noqa: PLC0415  # the others need not wait for it
        from dp_spark.pipeline import publish_held  # noqa: PLC0415

        publish_held(release_id, reason, profile=places, spark=lambda: start_session(places.spark))
    else:
        open_ledger(places).decide(release_id, decision, reason)
    _tell(open_ledger(places), release_id, as_json=as_json)


def charge_command(
    spec: Path, key: str, *, revise: str | None, reason: str, profile: str | None, as_json: bool
) -> None:
    """Charge a period that the ledger has forgotten, and print what is left.

    Raises:
        Refusal: as `charge_forgotten`.
    """
    from dp_spark.pipeline import charge_forgotten  # noqa: PLC0415  # the others need not wait for it

    release, places = load_spec(spec), load_profile(profile)
    (reason,) = texts_of("ledger charge", reason=reason)
    record = charge_forgotten(release, key, reason=reason, profile=places, revise=revise)
    _tell(open_ledger(places), record.release_id, as_json=as_json)


def _tell(ledger: Ledger, release_id: ReleaseId, *, as_json: bool) -> None:
    record = release_record(ledger, release_id)
    left = ledger.budget(release_id.population).left
    facts = {
        "release": str(release_id),
        "state": record.state.value,
        "left": {"epsilon": str(left.epsilon), "delta": str(left.delta)},
    }
    sys.stdout.write((json.dumps(facts) if as_json else f"{record.state}  {release_id}") + "\n")


def verify_command(head: str | None, *, profile: str | None, as_json: bool) -> None:
    """Print what a comparison of all rows with the chain found, and the head to keep.

    Raises:
        LedgerRefused: something does not agree.
    """
    kept = None if head is None else Head.parse(head)
    verdict = open_ledger(load_profile(profile)).verify(kept)
    if verdict.findings:
        raise LedgerRefused(
            "ledger_altered",
            f"the ledger does not agree with its chain: {'; '.join(verdict.findings)}",
            way_out="charge nothing more; restore the newest backup that verifies, charge what was "
            "released since with `dp-spark ledger charge`, and find out who wrote the database",
        )
    facts = {"rows": verdict.rows, "head": None if verdict.head is None else str(verdict.head)}
    lines = [
        f"verified   {verdict.rows} rows",
        f"head       {facts['head'] or 'none yet'}",
        "keep the head elsewhere: `--head` finds a ledger that was put back whole, which nothing else does",
    ]
    sys.stdout.write((json.dumps(facts) if as_json else "\n".join(lines)) + "\n")
