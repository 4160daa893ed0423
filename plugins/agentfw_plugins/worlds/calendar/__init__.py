"""The calendar: whether an agent learns whom it keeps a calendar for.

A user's principles are hidden, and show only in what they choose. Organisations come from YAML files, users from
organisations, years from users, and conflicts from years. An agent sees a few lines of it in each round.

    from agentfw_plugins.worlds.calendar.dataset import Dataset

    dataset = Dataset(seed=7)
    calendar = dataset.calendar(dataset.user("7-test-0-3"))
    calendar.rounds[0].answer

The modules in the order in which data flows: event_attributes, schema, organisation, regular_year, dataset; then
baselines, environment, choice_model, policies.
docs/reference/calendar.md explains all of it. A person's own calendar is in `agentfw_calendar`.
"""
