"""The fitted model: its members, the ensemble for prediction, bounds, and the state of ``partial_fit``."""
