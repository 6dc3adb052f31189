"""Settings shared by all tests."""

import os

import hypothesis

# Threads of OpenMP (PyTorch, XGBoost, scikit-learn) sleep while they wait for each other. When tests run in parallel,
# spinning threads take the processor from the threads they wait for, which can increase the time tenfold.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# Fixed examples make failures reproducible.
hypothesis.settings.register_profile("softboost", derandomize=True, deadline=None, max_examples=25)
hypothesis.settings.load_profile("softboost")
