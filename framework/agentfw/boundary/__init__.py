"""Everything between the framework and code that is not its own: who is at fault, deadlines, copies, secrets."""
