"""Problems to solve within a budget of tokens."""
