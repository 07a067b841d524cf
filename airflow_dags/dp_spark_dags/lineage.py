"""What was published, in the words of OpenLineage; imported only where its provider asks."""

from collections.abc import Mapping
from typing import Any

from openlineage.client.event_v2 import OutputDataset
from openlineage.client.facet_v2 import DatasetFacet, dataset_version_dataset

NAMESPACE, FACET = "dp_spark", "dp_spark"  # as in the events of the jobs
_ATTRIBUTES = ("release_id", "epsilon", "delta")


def dataset_of(name: str, key: str, told: Mapping[str, Any]) -> OutputDataset:
    """The dataset of an asset: the digest is its version; facet `dp_spark` says key, id and cost."""
    of_release = {each: told[each] for each in _ATTRIBUTES if each in told}
    facet: Any = DatasetFacet().with_additional_properties(key=key, **of_release)
    facets = {
        "version": dataset_version_dataset.DatasetVersionDatasetFacet(told["digest"]),
        FACET: facet,
    }
    return OutputDataset(NAMESPACE, name, facets=facets)
