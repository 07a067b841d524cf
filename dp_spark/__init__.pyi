"""The public names of dp_spark; the package loads each when it is first asked for."""

from .notebook import Release

__version__: str

__all__ = ["Release"]
