"""The one channel between window and host: frames, commands, answers, state."""
