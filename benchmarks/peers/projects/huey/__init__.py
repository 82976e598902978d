"""huey on Redis; BENCH_WORKERS says which kind of worker."""
