"""The version that dbt shows for the adapter: that of the package."""

version = "0.1.0"
