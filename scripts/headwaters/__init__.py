"""headwaters: streams into bronze, and the commands around the dbt project."""
