"""What comes of runs: the report with its charts, and comparisons."""
