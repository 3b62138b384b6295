"""An interview with a person: its moves, what follows from them, and the state that every face renders."""
