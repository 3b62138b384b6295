"""Asking and believing: histories, pursuers, stopping rules, rollouts, chains and sessions."""
