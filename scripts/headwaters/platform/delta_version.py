"""The facts that depend on the version of Delta: properties, operations, features, errors.

CONTRIBUTING has the recipe for a new version. Tests compare the properties and the operations with
Delta's own lists.
"""

from __future__ import annotations

import re
from typing import Literal

PropertyKind = Literal["boolean", "interval", "integer", "columns", "text", "feature", "server"]

APPEND_ONLY = "delta.appendOnly"
FEED = "delta.enableChangeDataFeed"
MAPPING = "delta.columnMapping.mode"

# The table properties, each with its permitted values: a kind, a tuple of values, or
# `server` for properties that only Delta sets. A test compares the list with Delta.
TABLE_PROPERTIES: dict[str, PropertyKind | tuple[str, ...]] = {
    APPEND_ONLY: "boolean",
    "delta.autoOptimize": "boolean",
    "delta.autoOptimize.autoCompact": "boolean",
    "delta.autoOptimize.optimizeWrite": "boolean",
    "delta.castIcebergTimeType": "boolean",
    "delta.checkpoint.writeStatsAsJson": "boolean",
    "delta.checkpoint.writeStatsAsStruct": "boolean",
    "delta.checkpointInterval": "integer",
    "delta.checkpointPolicy": ("classic", "v2"),
    "delta.checkpointRetentionDuration": "interval",
    "delta.columnMapping.maxColumnId": "server",
    MAPPING: ("none", "name", "id"),
    "delta.compatibility.symlinkFormatManifest.enabled": "boolean",
    "delta.dataSkippingNumIndexedCols": "integer",
    "delta.dataSkippingStatsColumns": "columns",
    "delta.dataSkippingStringPrefixLength": "integer",
    "delta.deletedFileRetentionDuration": "interval",
    "delta.dropFeatureTruncateHistory.retentionDuration": "interval",
    FEED: "boolean",
    "delta.enableDeletionVectors": "boolean",
    "delta.enableExpiredLogCleanup": "boolean",
    "delta.enableFullRetentionRollback": "boolean",
    "delta.enableIcebergCompatV1": "boolean",
    "delta.enableIcebergCompatV2": "boolean",
    "delta.enableIcebergCompatV3": "boolean",
    "delta.enableInCommitTimestamps": "boolean",
    "delta.enableMaterializePartitionColumnsFeature": "boolean",
    "delta.enableRowTracking": "boolean",
    "delta.enableTypeWidening": "boolean",
    "delta.enableVariantShredding": "boolean",
    "delta.ignoreProtocolDefaults": "boolean",
    "delta.inCommitTimestampEnablementTimestamp": "server",
    "delta.inCommitTimestampEnablementVersion": "server",
    "delta.isolationLevel": ("Serializable",),
    "delta.logRetentionDuration": "interval",
    "delta.minReaderVersion": "integer",
    "delta.minWriterVersion": "integer",
    "delta.parquet.format.version": ("1.0.0", "2.12.0"),
    "delta.randomPrefixLength": "integer",
    "delta.randomizeFilePrefixes": "boolean",
    "delta.requireCheckpointProtectionBeforeVersion": "server",
    "delta.rowTrackingSuspended": "server",
    "delta.sampleRetentionDuration": "interval",
    "delta.setTransactionRetentionDuration": "interval",
    "delta.universalFormat.enabledFormats": "text",
    "delta.writePartitionColumnsToParquet": "boolean",
}

# The start of a property that enables a table feature.
FEATURE = "delta.feature."
DELETION_VECTORS = "deletionVectors"
# Words that Delta's own statements (DESCRIBE HISTORY, OPTIMIZE, VACUUM, …) refuse as the name of a
# table without quotes. Spark's statements accept them.
RESERVED_NAMES = frozenset(
    {
        *("add", "alter", "comment", "constraint", "drop", "false", "history", "if"),
        *("not", "null", "replace", "tblproperties", "timestamp", "true", "version", "where"),
    }
)
# A catalog keeps commits in these folders of a log before they become files of the log.
FOLDERS_OF_CATALOGS = ("_staged_commits", "_commits")
# Each commit contains its timestamp, since a version or always.
IN_COMMIT_TIMESTAMPS = "delta.enableInCommitTimestamps"
IN_COMMIT_TIMESTAMPS_FROM = "delta.inCommitTimestampEnablementVersion"
# Types whose features Delta adds to a new table only; one that exists has to have them first.
_FEATURES_OF_TYPES = {"timestamp_ntz": "timestampNtz", "variant": "variantType"}
# Table features with which Delta fills the columns that a statement omits.
FILLING_FEATURES = {"identityColumns", "generatedColumns", "allowColumnDefaults"}
# The metadata of such columns.
IDENTITY = "delta.identity.start"
GENERATED = "delta.generationExpression"
DEFAULT = "CURRENT_DEFAULT"
# Types that Delta widens in place: https://docs.delta.io/latest/delta-type-widening.html
WIDER_TYPES = {
    "tinyint": ("smallint", "int", "bigint", "double"),
    "smallint": ("int", "bigint", "double"),
    "int": ("bigint", "double"),
    "float": ("double",),
    "date": ("timestamp_ntz",),
}

# Operations that change neither rows nor columns, nor what a table permits.
OPERATIONS_WITHOUT_EFFECT = frozenset(
    {
        "OPTIMIZE",
        "REORG",
        "VACUUM START",
        "VACUUM END",
        "SET TBLPROPERTIES",
        "UNSET TBLPROPERTIES",
        "CLUSTER BY",
        "COMPUTE STATS",
        "SET TABLE COMMENT",
        "ROW TRACKING BACKFILL",
        "ROW TRACKING UNBACKFILL",
        "OPTIMIZE CHECKPOINT",
        "DOMAIN METADATA CLEANUP",
    }
)
# Operations that write the same rows into other files.
REWRITING_OPERATIONS = frozenset({"OPTIMIZE", "REORG"})
# Operations that change no row.
OPERATIONS_WITHOUT_ROWS = OPERATIONS_WITHOUT_EFFECT | frozenset(
    {
        "ADD CONSTRAINT",
        "DROP CONSTRAINT",
        "UPGRADE PROTOCOL",
        "CREATE TABLE",
        "DROP FEATURE",
        "Deletion Vector Tombstones",
        "Empty Commit",
        "CHANGE COLUMN",
        "CHANGE COLUMNS",
        "ADD COLUMN",
        "ADD COLUMNS",
        "REPLACE COLUMNS",
        "RENAME COLUMN",
        "DROP COLUMNS",
    }
)
OPERATIONS_ADDING_COLUMNS = frozenset({"ADD COLUMN", "ADD COLUMNS"})  # delta-rs uses the singular
OPERATIONS_ALTERING_COLUMNS = frozenset({"CHANGE COLUMN", "CHANGE COLUMNS", "REPLACE COLUMNS"})
OPERATIONS_MOVING_COLUMNS = frozenset({"RENAME COLUMN", "DROP COLUMNS"})

# Operations that change rows, as AS SELECT does. Operations without a list may change anything.
OPERATIONS_WITH_ROWS = frozenset(
    {
        "WRITE",
        "STREAMING UPDATE",
        "MERGE",
        "DELETE",
        "UPDATE",
        "TRUNCATE",
        "RESTORE",
        "CLONE",
        "CONVERT",
        "REPLACE TABLE",
        "CREATE OR REPLACE TABLE",
    }
)
# The operations of Spark that preserve partitioning, clustering and the comment.
OPERATIONS_KEEPING_LAYOUT = {
    *("WRITE", "MERGE", "DELETE", "UPDATE", "OPTIMIZE", "VACUUM START", "VACUUM END"),
    *("SET TBLPROPERTIES", "ADD CONSTRAINT", "DROP CONSTRAINT"),
    *("ADD COLUMNS", "CHANGE COLUMN", "CHANGE COLUMNS"),
}

# Engines whose change images were compared with the rows of the table, value by value.
SPARK_ENGINE = "Apache-Spark/"
ENGINES_WITH_WHOLE_IMAGES = (SPARK_ENGINE, "delta-rs:")
# An engine that truncates timestamps in change images and rewritten files to milliseconds.
ENGINE_WITH_MILLISECONDS = "trino"

# Delta silently ignores unknown options, and would overwrite the whole table. The option
# `replaceOn` is only used with an engine that is known to have it.
_DELTA_ENGINE = re.compile(r"Apache-Spark/\S+ Delta-Lake/(\d+)\.(\d+)")
_REPLACE_ON_SINCE = (4, 4)

# Error conditions, some as patterns.
METADATA_CHANGED = "DELTA_METADATA_CHANGED"
NOT_A_DELTA_TABLE = (
    *("DELTA_ONLY_OPERATION", "DELTA_TABLE_ONLY_OPERATION", "DELTA_MISSING_DELTA_TABLE"),
)
DEFAULTS_REFUSED = "WRONG_COLUMN_DEFAULTS_FOR_DELTA_FEATURE_NOT_ENABLED"
CONFLICT_CONDITION = r"\[(DELTA_CONCURRENT_\w+)"
CONFLICT = r"DELTA_CONCURRENT|Concurrent\w+Exception"
CONFLICT_WITH_MAINTENANCE = r"a concurrent (OPTIMIZE|REORG|VACUUM)"
# Delta 4.4 asks for the session in the tasks of `reorg table … apply (purge)`. Executors have none.
PURGE_ON_EXECUTORS = "No active or default Spark session found"
SOURCE_CHANGED = {"DELTA_SOURCE_TABLE_IGNORE_CHANGES", "DELTA_SOURCE_IGNORE_DELETE"}
# A stream of a Delta source has stored new columns of its table, and continues after a restart.
SCHEMA_FOLLOWED = "DELTA_STREAMING_METADATA_EVOLUTION"
# A file of a table's log is missing, truncated, or not written by Delta.
LOG_DAMAGED = {
    "DELTA_LOG_FILE_NOT_FOUND",
    "DELTA_STATE_RECOVER_ERROR",
    "DELTA_TRUNCATED_TRANSACTION_LOG",
    "DELTA_VERSIONS_NOT_CONTIGUOUS",
}
# The errors of inputs that can no longer be read at their applied versions.
UNREADABLE_INPUTS = (
    *("FAILED_READ_FILE", "DELTA_FILE_NOT_FOUND", "DELTA_FILE_OR_DIR_NOT_FOUND", "DELTA_VERSION"),
    *("DELTA_LOG_FILE_NOT_FOUND", "DELTA_TRUNCATED_TRANSACTION_LOG"),
)
FEED_OFF = "DELTA_MISSING_CHANGE_DATA"
FEED_INCOMPATIBLE = r"DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_\w+"
COMMITS_LOST = (
    r"DELTA_(?:LOG_FILE_NOT_FOUND|TRUNCATED_TRANSACTION_LOG|VERSIONS?_NOT_\w+"
    r"|STATE_RECOVER_ERROR|CDC_START_VERSION_AFTER_LATEST|INVALID_CDC_RANGE)"
)
COMMIT_INCOMPLETE = "DELTA_REMOVE_FILE_CDC_MISSING_EXTENDED_METADATA"
FILES_LOST = (
    r"FAILED_READ_FILE|DELTA_FILE_NOT_FOUND|DELTA_FILE_OR_DIR_NOT_FOUND|CANNOT_READ_FILE_FOOTER"
    r"|DELTA_DELETION_VECTOR_\w+_MISMATCH|FileNotFoundException|NoSuchFileException"
)


def has_replace_on(engine: str) -> bool:
    """Return true if a commit's `engineInfo` names an engine with the option `replaceOn`."""
    match = _DELTA_ENGINE.match(engine)
    return match is not None and (int(match[1]), int(match[2])) >= _REPLACE_ON_SINCE


def features_of_types(columns: str) -> dict[str, str]:
    """Return the properties with which an existing table may get columns, given as DDL."""
    words = set(re.findall(r"\w+", re.sub("`[^`]*`", "", columns.lower())))
    return {
        f"{FEATURE}{feature}": "supported"
        for word, feature in _FEATURES_OF_TYPES.items()
        if word in words
    }
