"""The data review of a pull request: the same inputs under two versions of the SQL, compared."""
