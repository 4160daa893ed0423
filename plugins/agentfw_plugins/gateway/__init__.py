"""HTTP in front of any policy: every program that speaks to a model is an agent, its sessions are episodes."""
