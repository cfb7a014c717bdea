"""What of the operands of products is copied asynchronously, and how it lies in shared memory."""

import pytest
from torch_mlir import ir

from rcompiler.dialects import registered_context
