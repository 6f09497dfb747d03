"""The desktop application: a window, and the host process behind it."""
