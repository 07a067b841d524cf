"""Sizes and probabilities of subset selection (uSS).

Source: Ye, Barg 2018 (subset selection); its utility-optimized form as in the evaluation of Yoon, Park, Nam,
Lee, arXiv 2509.24173.
"""

from fractions import Fraction
from math import comb, exp, expm1

import numpy as np

from dp_spark.uldp.affine import Affine
from dp_spark.uldp.complete import Complete
from dp_spark.uldp.designs import Design
from dp_spark.uldp.field import Field
from dp_spark.uldp.primes import is_prime, least_prime_power
from dp_spark.uldp.words import LARGEST_SIZE


def subset_design(n_categories: int, n_sensitive: int, epsilon: Fraction) -> Design:
    """All subsets of the best size where their numbers fit a report, else the blocks of a 2-transitive group.

    A group on q > v points makes it subset selection among q categories, q - v of which nobody has.
    """
    size = subset_size(n_sensitive, epsilon)
    if comb(n_sensitive, size) * (n_categories - n_sensitive + 1) < LARGEST_SIZE:
        return Complete(n_sensitive, size)
    q = least_prime_power(n_sensitive)
    make = Affine if is_prime(q) else Field
    return make(n_sensitive, q, subset_size(q, epsilon))


def subset_size(n_sensitive: int, epsilon: Fraction) -> int:
    """The size k whose error is least, A + max(B, C) in the authors' evaluation."""
    if n_sensitive == 1:
        return 1
    v, ratio, growth = n_sensitive, exp(epsilon), expm1(epsilon)
    k = np.arange(1, v, dtype=np.float64)
    own = v * (k * ratio - ratio + v - k) * (k * ratio - k + v - 1) / (k * (v - k) * growth**2)
    inside = (k * (1 - k) * growth + (v - 1) * (v - 2 * k)) / (k * (v - k) * growth)
    return 1 + int(np.argmin(own + np.maximum(inside, v / (k * growth))))


def beside_probability(design: Design, epsilon: Fraction) -> Fraction:
    """The probability that a non-sensitive answer is reported with a block that says nothing.

    With it each sensitive category lies in as many blocks of those answers as of another sensitive one.
    """
    b, r, growth = design.n_blocks, design.replication, Fraction(expm1(epsilon))
    return b * design.pairs * growth / (r * (r * growth + b))
