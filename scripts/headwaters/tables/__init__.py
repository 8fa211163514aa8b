"""Tables as code: properties, maintenance, policy, erasure, histories and logs.

Pure functions over nodes of dbt's manifest and rows from Spark. Macros call them through adapter
methods, and contain the SQL.
"""
