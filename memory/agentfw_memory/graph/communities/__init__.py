"""Communities of users and skills, at several resolutions, in step with the store."""
