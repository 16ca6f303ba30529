"""Benchmarks: programs that print comparable figures. Machines are noisy: compare within one run."""
