"""The public names of the noise room; the package loads each when it is first asked for."""

from .calibrate import calibrate_lattice, least_variance_noise, tightest_table
from .cells import certified_delta
from .composition import (
    Slot,
    basic_sum,
    composed_delta,
    composed_epsilon,
    dominating_shift,
    slots_delta,
    slots_epsilon,
)
from .concentrated import largest_rho, zcdp_delta, zcdp_epsilon
from .custom import Custom
from .denoise import Denoised, consistent_sums, james_stein, non_negative, soft_threshold
from .domination import Cell, is_dominated
from .families import Family, Gaussian, Laplace, Logistic, Subbotin, TruncatedLaplace
from .floor import variance_floor
from .freezing import freeze
from .geometric import GeometricTable, pure_epsilon_table
from .hyperbolic import Hyperbolic
from .joint import Choice, Fixed, calibrate_jointly, expected_std, expected_variance, least_variance_jointly
from .keystream import cell_ids, derive_key, encode_label, fingerprint, words
from .lattice import Mass, NoiseTable
from .names import FAMILIES, family_named
from .neighbours import Moved, Part, epsilon_alone, worst_cases, worst_delta
from .norms import require_norm
from .pairs import beside_pair
from .privacy import least_scale, privacy_delta, privacy_epsilon
from .zcdp import ApproximateZcdp, discrete_gaussian_rho, l2_delta, table_zcdp

__all__ = [
    "FAMILIES",
    "ApproximateZcdp",
    "Cell",
    "Choice",
    "Custom",
    "Denoised",
    "Family",
    "Fixed",
    "Gaussian",
    "GeometricTable",
    "Hyperbolic",
    "Laplace",
    "Logistic",
    "Mass",
    "Moved",
    "NoiseTable",
    "Part",
    "Slot",
    "Subbotin",
    "TruncatedLaplace",
    "basic_sum",
    "beside_pair",
    "calibrate_jointly",
    "calibrate_lattice",
    "cell_ids",
    "certified_delta",
    "composed_delta",
    "composed_epsilon",
    "consistent_sums",
    "derive_key",
    "discrete_gaussian_rho",
    "dominating_shift",
    "encode_label",
    "epsilon_alone",
    "expected_std",
    "expected_variance",
    "family_named",
    "fingerprint",
    "freeze",
    "is_dominated",
    "james_stein",
    "l2_delta",
    "largest_rho",
    "least_scale",
    "least_variance_jointly",
    "least_variance_noise",
    "non_negative",
    "privacy_delta",
    "privacy_epsilon",
    "pure_epsilon_table",
    "require_norm",
    "slots_delta",
    "slots_epsilon",
    "soft_threshold",
    "table_zcdp",
    "tightest_table",
    "variance_floor",
    "words",
    "worst_cases",
    "worst_delta",
    "zcdp_delta",
    "zcdp_epsilon",
]
