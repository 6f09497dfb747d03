"""The window: widgets, models and theme. It holds no agent state of its own."""
