"""Metrics, plots and reports on scored trials; no torch here."""
