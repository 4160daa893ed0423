"""A machine that may have broken, and noises that don't quite tell."""
