"""From a query to the skills that fit: candidates, the score of each, and the in-memory copy they are read from."""
