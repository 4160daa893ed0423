"""What the experiments with explicit time share: tables that learn, hand-written controllers, and their command.

The one rule: everything is played on the timeline, through the same engagement as any other agent; training, validation
and evaluation draw their episodes from three splits that share no seed.
"""
