"""Search: the vectors and words of skills, and where vectors come from."""
