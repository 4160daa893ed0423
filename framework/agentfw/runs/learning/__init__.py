"""The learning part of a training: which tasks an update has, the new version, and the proof that it is served."""
