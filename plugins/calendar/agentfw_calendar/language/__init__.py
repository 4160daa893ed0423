"""What a person reads, and the words by which an event is understood."""
