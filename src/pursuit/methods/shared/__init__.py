"""What several rivals share."""
