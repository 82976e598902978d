"""Celery with broker and results in Redis."""
