"""dj-queue, a backend of Django's Tasks framework."""
