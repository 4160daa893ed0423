"""Worlds: one module each, or one folder, with everything that belongs to that world alone.

    worlds/NAME.py          the environment, its settings and its reward models
    worlds/registration.py  what each world offers; see agentfw_plugins/registration.py
    worlds/specs/NAME.toml  what `agentfw run NAME` starts from; train-NAME.toml, what `agentfw train NAME` does

Components that serve any world are in the folder of their kind: policies/, rewards/, memories/ and so on.
"""
