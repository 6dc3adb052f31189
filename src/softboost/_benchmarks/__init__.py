"""Benchmarks of softboost: accuracy and speed compared with other libraries."""
