"""Model selection of the default: candidates are cross-validated and combined by evidence."""
