"""django-ox, a backend of Django's Tasks framework."""
