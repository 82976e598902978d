"""dramatiq on Redis; BENCH_RESULTS says whether it keeps results."""
