"""An optimizer with a loss of its own: bad answers become unlikely, however far the policy has gone."""
