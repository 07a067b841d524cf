"""Which norms of a sensitivity noise can be calibrated to, and why no others."""

from fractions import Fraction

from dp_spark.errors import PlanRefused


def require_norm(p: Fraction | float) -> None:
    """Refuse a sensitivity in the p-norm unless p is 1 or 2.

    p = 1: independent noise of any family is dominated by one coordinate at the l1 sensitivity. p = 2:
    Gaussian noise, by rotation (continuous) or by zCDP (integers). For other p the literature had a
    reduction to one coordinate of Subbotin noise at the p-norm sensitivity; its author withdrew it. With the
    shift (n^(-1/p), ..., n^(-1/p)), epsilon = 1 and 1e-6 claimed, delta is at least 2.9e-6 at p = 3, n = 20;
    2.3e-4 at p = 4, n = 100; 0.13 at p = 7.5, n = 2000.

    Raises:
        PlanRefused: p is neither 1 nor 2.

    Source: Vinterbo, arXiv 2202.11393v3, the note on Lemma 8 and Theorem 9.
    """
    if p not in (1, 2):
        raise PlanRefused(
            "norm_refused",
            f"p = {float(p):g}: noise cannot be calibrated to a sensitivity in this p-norm. The reduction of"
            " many coordinates to one Subbotin coordinate (Vinterbo 2022, Theorem 9) is withdrawn: at"
            " p = 7.5 and 2000 coordinates it claims delta = 1e-6 where delta is at least 0.13",
            way_out="bound cells and the change of each (max_groups), or the l1 or l2 norm",
        )
