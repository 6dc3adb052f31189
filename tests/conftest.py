"""Settings shared by all tests."""

import hypothesis

# Fixed examples: a failure seen once is seen by everybody, and a passing suite keeps passing.
hypothesis.settings.register_profile("softboost", derandomize=True, deadline=None, max_examples=25)
hypothesis.settings.load_profile("softboost")
