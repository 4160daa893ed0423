"""What a statement says of somebody or something, and which of several about the same thing is the newest."""
