"""django-q2, with the broker that BENCH_BROKER names: orm or redis."""
