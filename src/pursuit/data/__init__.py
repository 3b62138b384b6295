"""Rows to learn from: in memory, drawn by a rule, or streamed from files."""
