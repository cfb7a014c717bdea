"""The cases of ONNX's standard backend tests, each as its schedule says, in numpy: no code is
generated.
"""
