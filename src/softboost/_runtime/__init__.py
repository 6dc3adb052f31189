"""Progress bars and handling of Ctrl-C."""
