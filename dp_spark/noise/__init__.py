"""Numbers only: noise families, exact integer tables, their calibration, and the keyed stream they use."""

from dp_spark.noise.calibrate import calibrate_lattice, least_variance_noise, tightest_table
from dp_spark.noise.cells import certified_delta
from dp_spark.noise.composition import basic_sum, dominating_shift
from dp_spark.noise.families import Family, Gaussian, Laplace
from dp_spark.noise.floor import variance_floor
from dp_spark.noise.freezing import freeze
from dp_spark.noise.geometric import GeometricTable, pure_epsilon_table
from dp_spark.noise.keystream import cell_ids, derive_key, encode_label, fingerprint, words
from dp_spark.noise.lattice import Mass, NoiseTable
from dp_spark.noise.names import FAMILIES

__all__ = [
    "FAMILIES",
    "Family",
    "Gaussian",
    "GeometricTable",
    "Laplace",
    "Mass",
    "NoiseTable",
    "basic_sum",
    "calibrate_lattice",
    "cell_ids",
    "certified_delta",
    "derive_key",
    "dominating_shift",
    "encode_label",
    "fingerprint",
    "freeze",
    "least_variance_noise",
    "pure_epsilon_table",
    "tightest_table",
    "variance_floor",
    "words",
]
