"""Names as SQL reads them."""


def quoted(column: str) -> str:
    """The column's name as Spark SQL reads it, whatever characters it holds."""
    return "`" + column.replace("`", "``") + "`"


def quoted_table(name: str, mark: str = "`") -> str:
    """The name of a table, whose parts are joined by dots, with each part in quotation marks."""
    return ".".join(f"{mark}{part}{mark}" for part in name.split("."))
