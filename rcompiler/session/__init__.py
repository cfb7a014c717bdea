"""Sessions as onnxruntime has them: models that are run by the names of inputs and outputs."""
