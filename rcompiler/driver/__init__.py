"""What compile_onnx and a saved model are made of: stages in order, workers, proof, figures."""
