"""What of a user's message is their own, and which sentences of that are worth remembering."""
