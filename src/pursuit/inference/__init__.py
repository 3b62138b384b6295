"""Asking and believing: histories, pursuers, stopping rules, rollouts and chains of rows."""
