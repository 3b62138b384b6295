"""Experiments: runs of a recipe, comparisons of methods, the demonstration, and how their results are written down."""
