"""Boosting: Algorithm 1 of the paper, and the weak learners that it boosts."""
