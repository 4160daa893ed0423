"""What a run has on disk: its folder, its journals and its figures."""
