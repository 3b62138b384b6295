"""Research: tasks of the paper and of others, concept networks, and experiments that reproduce, compare and tune."""
