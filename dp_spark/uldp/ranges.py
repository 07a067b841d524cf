"""Whole parameters of designs, refused outside their range."""

from dp_spark.errors import PlanRefused

LARGEST_NUMBER = 2**62  # block numbers stay below it, so that sums of a few of them fit 64 bits


def check_range(parameter: str, value: int, low: int, high: int, *, way_out: str) -> None:
    """Pass where low <= value <= high.

    Raises:
        PlanRefused: it lies outside.
    """
    if not low <= value <= high:
        raise PlanRefused(
            "design_out_of_range",
            f"{parameter} = {value} lies outside of {low}..{high}",
            way_out=way_out,
        )


def check_blocks(name: str, n_blocks: int) -> None:
    """Pass where all blocks can be numbered below 2^62.

    Raises:
        PlanRefused: there are more.
    """
    if n_blocks >= LARGEST_NUMBER:
        raise PlanRefused(
            "too_many_blocks",
            f"{name} has {n_blocks} blocks; their numbers have to stay below 2^62",
            way_out="take an affine design, which has less than q^2 / 2 blocks, or fewer cells of a hash",
        )
