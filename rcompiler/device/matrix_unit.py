"""MatrixUnit: what one instruction of the matrix unit of an EU multiplies.

Sources: PTX ISA, "Matrix shape" of mma (m16n8k16 of f16 and bf16, m16n8k8 of tf32, m16n8k32 of
bytes, each factor with a sign or without; a warp) and of wgmma (m64nNk16, N a multiple of 8 up to
256; a warpgroup of 128 threads). Intel, Architecture Instruction Set Extensions, "Intel AMX": tile
registers of 16 rows of 64 bytes.
"""

from dataclasses import dataclass
from typing import Literal, get_args

from rcompiler.device.checks import positive, require

Instruction = Literal["mma", "wgmma", "amx"]


@dataclass(frozen=True)
class MatrixUnit:
    """`threads` of a block start `instruction` together, on factors of `element` ("f16", "bf16",
    "tf32", "i8"): `rows` results by a multiple of `columns` of them, at most `most_columns`, each
    the sum of `depth` products. Less than that takes as long: results beside those are padding.

    `item`: bytes of an element where the unit reads it. `share`: of the dense peak of that element
    (`ComputeUnit.matrix`) that loops of such instructions reach, whose operands are at hand.
    """

    instruction: Instruction
    element: str
    threads: int
    rows: int
    columns: int
    depth: int
    most_columns: int
    item: int
    share: float

    def __post_init__(self) -> None:
        known = get_args(Instruction)
        require(
            self.instruction in known,
            f"matrix unit: instruction {self.instruction!r}",
            f"it is one of {known}",
        )
        sizes = ("threads", "rows", "columns", "depth", "most_columns", "item")
        positive(self.name, **{name: getattr(self, name) for name in (*sizes, "share")})
        require(
            self.share <= 1,
            f"{self.name}: share is {self.share!r}",
            "no loop is faster than the unit",
        )
        require(
            self.most_columns % self.columns == 0,
            f"{self.name}: most_columns is {self.most_columns!r}",
            f"it must be a multiple of columns, {self.columns}",
        )

    @property
    def name(self) -> str:
        """As people say: "wgmma of f16"."""
        return f"{self.instruction} of {self.element}"

    @property
    def warpgroups(self) -> bool:
        """Whether four warps multiply together what lies in shared memory; else each warp by
        itself what it has loaded from there.
        """
        return self.instruction == "wgmma"


def mma_units(elements: tuple[str, ...], share: float) -> tuple[MatrixUnit, ...]:
    """mma.sync of a warp as it is from compute capability 8.0 on: 32 bytes of a row at a time."""
    items = ((e, {"tf32": 4, "i8": 1}.get(e, 2)) for e in elements)
    return tuple(MatrixUnit("mma", e, 32, 16, 8, 32 // item, 8, item, share) for e, item in items)


def wgmma_units(elements: tuple[str, ...], share: float) -> tuple[MatrixUnit, ...]:
    """wgmma of compute capability 9.0, which takes both factors out of shared memory: 32 bytes of a
    row at a time, and of bytes no odd number of 8 columns but 1 and 3, which are left out.
    """
    items = ((e, 1 if e == "i8" else 2) for e in elements)
    return tuple(
        MatrixUnit("wgmma", e, 128, 64, 16 // item, 32 // item, 256, item, share)
        for e, item in items
    )


# Of a core with AMX, `tdpbusd` and the like, and `tdpbf16ps`: up to 16 rows, each a cycle.
AMX_BYTES = MatrixUnit("amx", "i8", 1, 16, 16, 64, 16, 1, 1.0)
AMX_HALVES = MatrixUnit("amx", "bf16", 1, 16, 16, 32, 16, 2, 1.0)
AMX = {unit.element: unit for unit in (AMX_BYTES, AMX_HALVES)}
