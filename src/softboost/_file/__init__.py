"""Model files: softboost's own format, which executes no code when it is loaded, and ONNX."""
