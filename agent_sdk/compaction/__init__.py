"""Compaction: older history is summarised for the model, and stays in the file as it was."""
