"""What a graph asks its store, in the words of a graph: nodes, skills, versions and edges, the same for every store."""
