"""dp_spark: private releases of tables about people, on Spark."""

__version__ = "0.1.0"
