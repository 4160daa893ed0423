"""How a turn is built, parsed and recorded."""
