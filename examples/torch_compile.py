"""A network of PyTorch, run by a compiled program: python examples/torch_compile.py

What of the network is not translated runs in PyTorch as before (docs/ways-in.md).
"""

import torch

network = torch.nn.Sequential(
    torch.nn.Conv2d(3, 16, 3, padding=1),
    torch.nn.ReLU(),
    torch.nn.AdaptiveAvgPool2d(1),
    torch.nn.Flatten(),
    torch.nn.Linear(16, 10),
).eval()
compiled = torch.compile(network, backend="rcompiler")
image = torch.randn(1, 3, 64, 64)
with torch.no_grad():
    difference = (compiled(image) - network(image)).abs().max().item()
print(f"largest difference from PyTorch: {difference:.1e}")
assert difference < 1e-5
