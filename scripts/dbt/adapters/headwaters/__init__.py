"""The dbt adapter `type: headwaters`: dbt-spark with the additions of docs/decisions/0016."""

from dbt.adapters.base.plugin import AdapterPlugin
from dbt.adapters.headwaters.connections import HeadwatersConnectionManager, HeadwatersCredentials
from dbt.adapters.headwaters.impl import HeadwatersAdapter
from dbt.include import headwaters

__all__ = ["HeadwatersAdapter", "HeadwatersConnectionManager", "HeadwatersCredentials", "Plugin"]

Plugin = AdapterPlugin(
    adapter=HeadwatersAdapter,  # type: ignore[arg-type]  # a protocol of class attributes
    credentials=HeadwatersCredentials,
    include_path=headwaters.PACKAGE_PATH,
    dependencies=["spark"],
)
