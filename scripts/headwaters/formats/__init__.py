"""What a record becomes: one module for each format."""
