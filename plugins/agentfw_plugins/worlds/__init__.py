"""Worlds, one folder each, with everything that belongs to that world alone.

    worlds/NAME/
        registration.py     what the world offers; see agentfw_plugins/registration.py
        environment.py      the environment and its settings
        rewards.py          its reward models, where it has any of its own
        specs/NAME.toml     what `agentfw run NAME` starts from; specs/train-NAME.toml, what `agentfw train NAME` does

Components that serve any world are in the folder of their kind: policies/, rewards/, memories/ and so on.
"""
