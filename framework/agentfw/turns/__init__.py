"""How a turn is built, parsed and recorded.

`turn_builder.py` is the one place where this happens. Engagements (`engagement.py`, with the agent of
`policy_agent.py`) and sessions (`session.py`, which the gateway, the chat and programs lead) use it.
"""
