"""The task that tells what was published, Airflow and whoever else listens: id, digest, cost, no value."""

from collections.abc import Mapping
from typing import Any

from airflow.sdk import Asset, BaseOperator

from dp_spark_dags.refusals import NothingPublished
from dp_spark_dags.results import read_result, result_path


class Record(BaseOperator):
    """The task `record`: an event of the asset, whose partition is the key.

    Args:
        published: id, within its group, of the task whose job published.
        results: where that left its result.
        asset: of the event.
    """

    def __init__(self, *, published: str, results: str, asset: Asset, **given: Any) -> None:
        super().__init__(**{"task_id": "record", "outlets": [asset], "do_xcom_push": False, **given})
        self._published, self._results, self._asset = published, results, asset

    def execute(self, context: Any) -> None:
        """Add the event.

        Raises:
            NothingPublished: the job left no result of it; no retry would help.
        """
        found = self._found(context["ti"])
        event = context["outlet_events"][self._asset]
        event.extra = _told(found)
        event.add_partitions(found["key"])

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """The asset as an output, for the provider of OpenLineage, which asks each operator that has this."""
        from airflow.providers.openlineage.extractors import OperatorLineage

        from dp_spark_dags.lineage import dataset_of

        found = self._found(task_instance)
        return OperatorLineage(outputs=[dataset_of(str(self._asset.name), found["key"], _told(found))])

    def _found(self, ti: Any) -> Mapping[str, Any]:
        task = f"{ti.task_id.removesuffix('record')}{self._published}"
        found = read_result(result_path(self._results, ti.dag_id, ti.run_id, task))
        if found is None or found.get("error") or not found.get("charge"):
            raise NothingPublished(
                "nothing_published",
                f"task {task} left no result of something published in {self._results}",
                way_out="see that jobs and all workers have that one directory, then clear that task: what "
                "was published stays, at no further charge",
            )
        return found


def _told(found: Mapping[str, Any]) -> dict[str, Any]:
    charge = found["charge"]
    return {
        "release_id": found["release"],
        "digest": found.get("digest"),
        **{name: charge[name] for name in ("epsilon", "delta") if name in charge},
    }
