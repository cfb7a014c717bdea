"""A fuzzer of the compiler: random valid ONNX graphs, judged beside two references and f64.

    python test/fuzz --seconds=180 --new-seeds            # random seeds, which it prints
    python test/fuzz --cases=250 --commit-seeds           # those of this commit, as CI does
    python test/fuzz --kinds=sweep                        # all operators, types and targets
    python test/fuzz --kinds=sweep --commit-seeds         # each for one target, as CI does
    python test/fuzz --cases=1000 --targets=cuda          # seeds 0 .. 999, on emulated GPUs
    python test/fuzz --seed=4711                          # one graph again, and made small
    python test/fuzz --kinds=models --seed=4711           # mutants of the file of a graph

A case is made of its seed alone. Kinds of cases: graphs; quantised networks, some of them made by
onnxruntime's tools, on two levels of CPUs; graphs with open axes, called with several sizes; graphs
with passes left out and exchanged; schedules changed as text; files of models, and compiled files,
with other bytes. `ops/` says how each operator may be used, a small generator for each; `maker`
composes them to graphs; `judge` says what became of one; `reduce` makes it small.
"""
