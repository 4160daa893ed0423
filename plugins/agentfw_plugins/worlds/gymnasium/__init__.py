"""Any Gymnasium environment as a world."""
