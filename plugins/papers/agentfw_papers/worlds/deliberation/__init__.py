"""Questions with deadlines, where thinking takes time."""
