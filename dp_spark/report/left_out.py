"""Who gets no report in a survey, in a sentence; how many they are is a fact of rows, and nowhere told."""

from dp_spark.release.spec import SurveySpec
from dp_spark.release.spec.groups import TOTAL_LABEL


def left_out(spec: SurveySpec) -> str:
    """Whom the survey of this spec leaves out, though its tables do not say so; the same for any rows."""
    unit = f"a row whose {' or '.join(spec.unit.columns)} is NULL is nobody's and is left out"
    if not spec.group_columns:
        return f"{unit[0].upper()}{unit[1:]}. How many such rows there are is never told."
    return (
        f"Whoever's {' and '.join(spec.group_columns)} is NULL or not among the listed groups gets no report "
        f"and counts nowhere, not in {TOTAL_LABEL} either; {unit}. How many they are is never told."
    )
