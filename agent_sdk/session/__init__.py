"""Sessions: the append-only file, its writer, and the owner that runs the loop on it."""
