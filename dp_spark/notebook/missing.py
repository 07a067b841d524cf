"""What a release that is said word by word does not say yet, and with which words to say it."""

from collections.abc import Mapping

from dp_spark.errors import SpecRefused
from dp_spark.release.spec import UnitSpec

_SAID_BY = {
    "unit": ("whom it protects", '.of_units("person") or .of_rows()'),
    "bounds": ("how much of one unit counts", ".bounded(max_groups=3, max_rows_per_group=10)"),
    "group_by": ("what makes a group", '.grouped_by("place", public=["a", "b"])'),
    "groups": (
        "which groups are released",
        ".groups_in_file(...), .groups_in_table(...), .groups_selected(...), or public=[...]",
    ),
    "queries": ("what it asks", '.count("visits"), .ids(...), .mean(...), .quantiles(...) or another kind'),
    "guarantee": ("how well it protects", '.guaranteed(epsilon=1, delta="1e-6")'),
    "budget": ("whose budget pays", '.paid_by("population")'),
    "publish": ("where it goes", '.published(parquet="out/visits")'),
}


def missing(parts: Mapping[str, object]) -> tuple[str, ...]:
    """What the parts of a spec leave unsaid, each with the words that say it."""
    unit = parts.get("unit")
    needless = {"bounds"} if isinstance(unit, UnitSpec) and unit.is_row else set()
    needless |= set() if "group_by" in parts else {"groups"}
    return tuple(
        f"{what}: {word}"
        for key, (what, word) in _SAID_BY.items()
        if key not in parts and key not in needless
    )


def require_complete(name: str, parts: Mapping[str, object]) -> None:
    """Check that nothing is left unsaid.

    Raises:
        SpecRefused: something is; the text names all of it.
    """
    if unsaid := missing(parts):
        raise SpecRefused(
            "spec_incomplete",
            "\n  - ".join((f"release {name!r} does not say", *unsaid)),
            way_out="add these words",
        )
