"""Numbers only: noise families, exact integer tables, their calibration, and the keyed stream they use.

The names stand in `__init__.pyi`. Each is loaded when it is first asked for: Spark's Python workers need the
keyed stream alone, and start a second or two earlier without the rest.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
