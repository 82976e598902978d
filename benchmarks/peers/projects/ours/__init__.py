"""sync_scheduler itself, by the same rules as everyone else."""
