"""The worlds of the papers, one folder each."""
