"""Runs through the command; the plugin agentfw-laboratory is installed."""

from command_line import agentfw, install, quick

from agentfw.report.axis import number_labels
from agentfw.runs.results.run_report import training_notes
from agentfw.runs.spec.start import with_choices

__all__ = ["agentfw", "install", "number_labels", "quick", "training_notes", "with_choices"]
