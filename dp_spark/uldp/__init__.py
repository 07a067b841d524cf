"""Numbers only: utility-optimized local privacy, its mechanisms, their designs, the limit and the estimators.

The names stand in `__init__.pyi`. Each is loaded when it is first asked for.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
