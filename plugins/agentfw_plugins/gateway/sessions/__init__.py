"""Where the sessions of a gateway are kept: in this folder, or in a database that several gateways share."""
