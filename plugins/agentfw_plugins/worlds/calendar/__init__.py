"""The calendar: whether an agent learns whom it keeps a calendar for.

    from agentfw_plugins.worlds.calendar.dataset import Dataset

    dataset = Dataset(seed=7)
    calendar = dataset.calendar(dataset.user("7-test-0-3"))
    calendar.rounds[0].answer

docs/reference/calendar.md explains all of it. A person's own calendar is in `agentfw_calendar`.
"""
