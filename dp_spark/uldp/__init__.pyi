"""The public names of the uldp room; the package loads each when it is first asked for."""

from .affine import Affine
from .complete import Complete
from .designs import Design, Incidence
from .domain import CATCH_ALL, Domain, SensitiveIf
from .efficiency import Efficiency, efficiency
from .estimate import Consistency, Estimate, Method, ReportCounts
from .exposure import Exposure, exposure
from .field import Field
from .hadamard import Hadamard
from .hashing import Hashing
from .limit import Limit, limit
from .mechanisms import Mechanism, mechanism
from .mixtures import mixture_mse
from .names import MechanismName
from .trivial import Trivial

__all__ = [
    "CATCH_ALL",
    "Affine",
    "Complete",
    "Consistency",
    "Design",
    "Domain",
    "Efficiency",
    "Estimate",
    "Exposure",
    "Field",
    "Hadamard",
    "Hashing",
    "Incidence",
    "Limit",
    "Mechanism",
    "MechanismName",
    "Method",
    "ReportCounts",
    "SensitiveIf",
    "Trivial",
    "efficiency",
    "exposure",
    "limit",
    "mechanism",
    "mixture_mse",
]
