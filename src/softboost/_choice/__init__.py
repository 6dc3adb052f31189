"""The self-choosing default: candidates judged out of fold and combined."""
