"""A store of the skill graph in a DuckDB file."""
