"""Seconds of one reservation behind many real charges: of a pool of sums, in a ledger in a temporary file.

python benchmarks/ledger_reservation.py [--charges 10000] [--url postgresql+psycopg://ROLE@HOST/EMPTY_DATABASE]
"""

import argparse
import statistics
import tempfile
import time
from fractions import Fraction
from pathlib import Path

from dp_spark.guarantee import Neighbours, PrivacyGuarantee, PrivacyUnit
from dp_spark.release.ledger import Ledger, ReleaseId, Reservation, create_ledger
from dp_spark.release.ledger.schedule import ReleaseNoise

POPULATION, UNIT, SOURCE = "people", PrivacyUnit(("person",)), "/data/visits"
MEASURED = 20


def charged(ledger: Ledger, number: int) -> float:
    """The seconds of one reservation; charges have a hundred different denominators."""
    charge = PrivacyGuarantee(Fraction(1, 1000 + number % 100), Fraction(1, 10**9 + number % 100))
    asked = Reservation(
        release_id=ReleaseId(POPULATION, "visits", f"day-{number}"),
        spec_digest="spec",
        plan_bytes=bytes(10_000),
        tables={"counts": bytes(10_000)},
        charge=charge,
        unit=UNIT,
        neighbours=Neighbours.ADD_REMOVE,
        noise=ReleaseNoise(Neighbours.ADD_REMOVE, ()),
        source=SOURCE,
    )
    started = time.perf_counter()
    ledger.reserve(asked)
    return time.perf_counter() - started


def main() -> None:
    """Charge, measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--charges", type=int, default=10_000)
    parser.add_argument("--url", help="of an empty database; default: a file that is deleted afterwards")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        url = given.url or f"sqlite:///{Path(home) / 'ledger.db'}"
        create_ledger(url)
        ledger = Ledger.open(url, bytes(32))
        limit = PrivacyGuarantee(Fraction(given.charges), Fraction(1, 10))
        ledger.set_budget(
            POPULATION, limit, unit=UNIT, neighbours=Neighbours.ADD_REMOVE, reason="a measurement"
        )
        first = [charged(ledger, number) for number in range(MEASURED)]
        for number in range(MEASURED, given.charges):
            charged(ledger, number)
        last = [charged(ledger, given.charges + number) for number in range(MEASURED)]
    for what, seconds in (("the first", first), (f"behind {given.charges:,} charges", last)):
        print(f"{what}: median {statistics.median(seconds):.4f} s, longest {max(seconds):.4f} s")


if __name__ == "__main__":
    main()
