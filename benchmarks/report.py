"""What every page of results says about its origin."""

from pathlib import Path

from pursuit.provenance import provenance as where

RESULTS = Path(__file__).parent.parent / "docs" / "results"

__all__ = ["RESULTS", "where"]
