"""Ground that everything else stands on: errors, ids and clock, tasks, durable files, children."""
