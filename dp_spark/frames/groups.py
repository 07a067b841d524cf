"""Public groups: each row gets the number of its group, rows of other groups fall away."""

from collections.abc import Sequence

import pandas as pd
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from dp_spark.frames.partition import GROUP
from dp_spark.frames.sources import quoted


def key_columns(group_by: Sequence[str]) -> list[Column]:
    """The group columns as text, under the names that `number_groups` joins on."""
    return [F.col(quoted(name)).cast("string").alias(f"key_{i}") for i, name in enumerate(group_by)]


def number_groups(frame: DataFrame, keys: Sequence[tuple[str, ...]]) -> DataFrame:
    """The frame with GROUP, the row's index in `keys`, in place of its `key_columns`.

    Keys are compared as text, by code points. A row with a NULL key, or with one that is not listed, is
    dropped: it counts nowhere, and takes no place among its unit's groups.
    """
    names = [f"key_{i}" for i in range(len(keys[0]))]
    listed = pd.DataFrame(list(keys), columns=names).assign(**{GROUP: range(len(keys))})
    public = frame.sparkSession.createDataFrame(listed).withColumn(GROUP, F.col(GROUP).cast("int"))
    others = [column for column in frame.columns if column not in names]
    return frame.join(F.broadcast(public), on=names, how="inner").select(*others, GROUP)
