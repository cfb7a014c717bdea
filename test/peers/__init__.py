"""Cases of other projects' test suites: of onnxruntime (MIT), TVM (Apache 2.0), tinygrad (MIT)
and burn (MIT or Apache 2.0).

Each is a model, inputs and the results that its project expects, in the layout of ONNX's backend
tests; those of more than 30 KB are left out. `python test/peers` runs them through a session, as
users do.
"""
