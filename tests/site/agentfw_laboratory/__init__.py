"""A plugin for the tests of runs: a world with rounds, memories that learn, and hooks that kill their own process.

The one rule: whatever an agent does depends on all that it was shown, so anything that a resumed run gets wrong shows.
"""
