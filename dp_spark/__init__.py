"""dp_spark: private releases of tables about people, on Spark.

The public names stand in `__init__.pyi`. Each is loaded when it is first asked for: commands, workers and
those who parse a DAG do not wait for the rest.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
