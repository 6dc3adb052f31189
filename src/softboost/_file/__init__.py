"""Models in files: our own format, which runs no code when it is read, and ONNX."""
