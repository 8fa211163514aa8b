"""The declarations of tables: properties, maintenance, expectations, and their units.

Pure functions over nodes of dbt's manifest and rows from Spark. Macros call them through adapter
methods, and contain the SQL.
"""
