"""Rivals of V-IP: one file a method, each a pursuer."""

from pursuit.baselines.random_order import RandomOrder

__all__ = ["RandomOrder"]
