"""What was published, in the words of OpenLineage; imported only where its provider asks."""

from collections.abc import Mapping
from typing import Any

from openlineage.client.event_v2 import OutputDataset
from openlineage.client.facet_v2 import DatasetFacet, dataset_version_dataset

NAMESPACE = "dp-spark"
_ATTRIBUTES = ("release_id", "epsilon", "delta")


def dataset_of(name: str, key: str, told: Mapping[str, Any]) -> OutputDataset:
    """The dataset of an asset: the digest is its version; facet `dp_spark_release` says key, id and cost."""
    of_release = {each: told[each] for each in _ATTRIBUTES if each in told}
    facets = {
        "version": dataset_version_dataset.DatasetVersionDatasetFacet(told["digest"]),
        "dp_spark_release": DatasetFacet().with_additional_properties(key=key, **of_release),
    }
    return OutputDataset(NAMESPACE, name, facets=facets)
