"""What the project declares of its tables: properties, maintenance, expectations, and their units.

Pure functions over nodes of dbt's manifest and rows that Spark answered. Macros call them through
adapter methods, and keep the SQL.
"""
