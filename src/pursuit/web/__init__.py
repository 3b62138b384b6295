"""The interview on a page: as one file that computes for itself, or from a server that remembers."""
