"""A merchant's market analyst: it plans analyses, an engine runs them, and a report comes out."""
