"""Adapters that need a library of their own, each behind an extra."""
