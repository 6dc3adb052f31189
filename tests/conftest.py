"""Settings shared by all tests."""

import os

import hypothesis

# Threads of OpenMP (PyTorch, XGBoost, scikit-learn) sleep while they wait for each other. Spinning ones take the
# processor from the very threads they wait for where tests run side by side, which costs up to ten times the time.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# Fixed examples: a failure seen once is seen by everybody, and a passing suite keeps passing.
hypothesis.settings.register_profile("softboost", derandomize=True, deadline=None, max_examples=25)
hypothesis.settings.load_profile("softboost")
