"""Plugins of a session, and the hooks they put into its loop."""
