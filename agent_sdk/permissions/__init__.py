"""Rules and the one gate that every tool call passes."""
