"""The worker's work: claim, execute, complete. Knows nothing of schedules or leaders."""
