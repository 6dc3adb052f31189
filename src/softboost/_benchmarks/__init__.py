"""Benchmarks of softboost: accuracy against its peers, and speed."""
