"""Linear models, one a file: the first level of the self-choosing default, and where boosting may start."""
