"""What a replica keeps on stable storage: the layout, writing, loading, migrating and checking it; how the log is
shortened (truncation); and snapshots of applications' state machines."""
