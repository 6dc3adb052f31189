"""The surroundings of a fit: progress bars and Ctrl-C."""
