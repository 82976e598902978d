"""The database backend of Django's Tasks framework (django-tasks-db)."""
