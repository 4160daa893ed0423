"""What is read out of a text by rules: its terms, its times, what it asks for and what it contradicts."""
