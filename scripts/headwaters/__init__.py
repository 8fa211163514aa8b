"""headwaters: ingestion of streams into bronze, and the commands of the dbt project."""
