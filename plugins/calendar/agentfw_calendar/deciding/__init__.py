"""What clashes, what is proposed, what was decided before and what is learned."""
