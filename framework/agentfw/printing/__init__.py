"""What is printed: data on stdout, everything else on stderr, and progress while it lasts."""
