"""The names of dbt's settings and properties, read from dbt's own classes."""

from __future__ import annotations

from functools import cache

# Settings of dbt-databricks that have no effect here, with the remedy.
OF_DATABRICKS = {
    "auto_liquid_cluster": "write cluster_by",
    "column_masks": "grant a view that masks the columns",
    "column_tags": "write tags",
    "compression": "set spark.sql.parquet.compression.codec in the profile",
    "databricks_compute": "remove it; the target names the Spark",
    "databricks_tags": "write tags",
    "include_full_name_in_path": "remove it; location_root and the schema decide the path",
    "incremental_apply_config_changes": "remove it; apply_tables applies changed settings",
    "insert_by_name": "remove it",
    "liquid_clustered_by": "write cluster_by",
    "query_tags": "write query-comment in dbt_project.yml",
    "row_filter": "grant a view that filters the rows",
    "unique_tmp_table_suffix": "remove it",
    "use_replace_on_for_insert_overwrite": "remove it",
    "use_safer_relation_operations": "remove it",
    "view_update_via_alter": "remove it",
}
# Settings of models for dbt's other adapters, and of snapshots, with ours for the same.
OF_OTHERS = {
    "bucketed_by": "cluster_by",
    "cluster_keys": "cluster_by",
    "clustering": "cluster_by",
    "partitioned_by": "partition_by",
    "strategy": "incremental_strategy",
    "table_properties": "tblproperties",
    "zorder": "maintenance: {zorder_by: …}",
}
# Further settings of dbt-databricks, dbt-athena and dbt-spark's macros, which dbt's classes do not
# have.
_NAMES_OF_ADAPTERS = """
    cluster_id column_mask create_notebook delete_condition delimiter environment_dependencies
    environment_key http_path incremental_predicates index_url job_cluster_config matched_condition
    merge_with_schema_evolution not_matched_by_source_action not_matched_by_source_condition
    not_matched_condition partitions pre-hook post-hook predicates python_job_config
    skip_matched_step skip_not_matched_step source_alias sql_header submission_method
    table_format target_alias timeout
    """
# Settings of snapshots that dbt reads by name alone.
_OF_SNAPSHOTS = ("hard_deletes", "invalidate_hard_deletes")
# Words that a project may use for itself, although one letter makes them a setting.
_WORDS = """
    bucket contact databases derives doc groups option owners package partition schemas scheme
    steam streams tag
    """
OTHERS = frozenset({*OF_DATABRICKS, *OF_OTHERS, *_NAMES_OF_ADAPTERS.split(), *_WORDS.split()})
# Settings of dbt that are mappings with fixed keys.
PARTED = ("contract", "persist_docs", "snapshot_meta_column_names")
_OF_DOCS = frozenset({"relation", "columns"})
# Properties that dbt reads beside those of its classes.
_PROPERTIES = frozenset({"overrides", "relation", "access", "group", "tags", "primary_key"})
# Properties that only describe a node; dbt ignores those that it does not know.
_DESCRIBING = frozenset({"access", "docs", "group", "meta", "tags"})


@cache
def config_names(kind: str) -> frozenset[str]:
    """Return the settings that dbt and dbt-spark read in the config of a kind of node."""
    from headwaters.platform.dbt_compat import config_fields  # dbt takes two seconds to import

    more = _OF_SNAPSHOTS if kind == "snapshot" else ()
    return config_fields(kind) | frozenset(more)


@cache
def known_names() -> frozenset[str]:
    """Return the names that are correct in any config."""
    kinds = ("model", "seed", "snapshot", "source")
    return OTHERS.union(*map(config_names, kinds))


@cache
def part_names(setting: str) -> frozenset[str]:
    """Return the keys of a setting of dbt that is a mapping."""
    from headwaters.platform.dbt_compat import part_fields

    return _OF_DOCS if setting == "persist_docs" else part_fields(setting)


@cache
def property_names(section: str) -> frozenset[str]:
    """Return the properties of an entry in YAML, by the key of its list.

    `section` is `models`, `seeds`, `sources`, `tables` or `columns`.
    """
    from headwaters.platform.dbt_compat import entry_fields

    return entry_fields(section) | _PROPERTIES


def config_only_names(section: str) -> frozenset[str]:
    """Return the settings that dbt reads in the config of an entry, and not beside it."""
    kind = {"tables": "source", "sources": "source"}.get(section, section.removesuffix("s"))
    return config_names(kind) - property_names(section) - _DESCRIBING
