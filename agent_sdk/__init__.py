"""The ZPI agent SDK: loop, providers, tools, sessions and permissions, free of any GUI."""

__version__ = "0.1.0"
