"""Releases in Python and in notebooks: said word by word, explained, and run in a session that is there."""

from dp_spark.notebook.explanation import Explanation
from dp_spark.notebook.release import Release

__all__ = ["Explanation", "Release"]
