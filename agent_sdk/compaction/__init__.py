"""Compaction: an older part of a conversation gives way to a summary."""
