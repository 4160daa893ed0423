"""From what happened to skills: drafts, their place among the skills that are there, and what is shared or retired."""
