"""The environment `questions`: prompts in a file, whose answers a reward function scores."""
