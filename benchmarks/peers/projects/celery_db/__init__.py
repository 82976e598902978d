"""Celery with a Redis broker and django-celery-results; BENCH_TUNED says whether tuned."""
