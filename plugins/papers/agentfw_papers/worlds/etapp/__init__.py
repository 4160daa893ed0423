"""ETAPP, a public benchmark of personal assistants, read from the user's own copy."""
