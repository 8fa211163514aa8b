"""The hidden tables of a model: `<model>__hw_stage_<n>`, in the schema of its table.

Their rows follow from the model's inputs alone. If one is dropped, the next run that needs it
builds it again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from headwaters.analysis import with_names
from headwaters.platform.delta_version import FEED
from headwaters.runs.inputs import Spec, marked
from headwaters.runs.model import Model
from headwaters.runs.session import Config, Connection, DbtRelation
from headwaters.tables.named_tables import hidden_table_name, used_hidden_tables
from headwaters.tables.properties import declared_properties

# Properties that concern the model's own columns and readers.
_OF_COLUMNS = re.compile(
    r"(?i)delta\.(columnMapping|dataSkipping|constraints|enableIcebergCompat"
    r"|universalFormat)"
)
# Settings that concern the model's own columns and readers.
_OF_MODEL = (
    *("stages", "partition_by", "cluster_by", "prune_by", "on_gap", "on_foreign_write"),
    *("replace_above", "apply_by", "location_root", "contract", "meta", "property_set"),
)


def hidden_table(target: DbtRelation, number: int) -> DbtRelation:
    """Return a hidden table of a model's table."""
    name = hidden_table_name(target.identifier, number)
    return target.incorporate(path={"identifier": name}, type="table", is_delta=True)


def stage_model(
    model: Model, number: int, stage: Mapping[str, Any], inputs: Sequence[Spec]
) -> Model:
    """Return a hidden table as a model over the inputs at the versions of its model's run."""
    target = hidden_table(model.target, number)
    specs = {spec["source"]: spec for spec in inputs}
    markers = {}
    for name, source in model.config["stages"]["names"].items():
        if source in stage["inputs"]:
            pinned = {name: specs[source][name] for name in ("source", "version", "at")}
            markers[name] = marked(stage["inputs"][source] | pinned)
    existing = model.session.cached(target)
    config = settings_of_hidden_table(model, stage)
    code = with_names(stage["sql"], markers)
    return Model(model.node, target, existing, code, config, model.session)


def settings_of_hidden_table(model: Model, stage: Mapping[str, Any]) -> Config:
    """Return the settings of the model that do not concern its own columns and readers.

    Nobody follows a hidden table: it has no change data feed.
    """
    declared = declared_properties(model.config)
    properties: dict[str, str | None] = {
        name: value for name, value in declared.items() if not _OF_COLUMNS.match(name)
    }
    properties[FEED] = None
    return {
        **model.config,
        "incremental_strategy": "affected_keys",
        "unique_key": stage["unique_key"],
        "tblproperties": properties,
        "derivation": {"stage_of": str(model.target)},
        **dict.fromkeys(_OF_MODEL),
        "leads": stage.get("leads"),
    }


def drop_hidden_tables(connection: Connection, target: DbtRelation, proof: str | None) -> None:
    """Drop the hidden tables of a table, which its property `headwaters.proof` names."""
    for number in range(1, used_hidden_tables(proof) + 1):
        connection.drop(hidden_table(target, number))
