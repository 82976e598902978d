"""The parts of the benchmarks that can be wrong without a server."""
