"""Small PTX kernels, run on the emulated device."""

import numpy as np

from rcompiler.emulator.driver import EmulatedDriver

HEAD = ".version 8.6\n.target sm_90a\n.address_size 64\n"


def kernel(body, *, pointers=("out",), scalars="", prelude="", attributes=""):
    """A module with a kernel `k`; its pointers are in registers of their names."""
    params = [f".param .u64 p_{name}" for name in pointers] + ([scalars] if scalars else [])
    loads = "".join(f".reg .b64 %{name};\nld.param.u64 %{name}, [p_{name}];\n" for name in pointers)
    return (
        f"{HEAD}{prelude}\n.visible .entry k(\n{', '.join(params)}\n)\n{attributes}\n{{\n"
        f".reg .b32 %tid;\nmov.u32 %tid, %tid.x;\n{loads}{body}\nret;\n}}\n"
    )


def put(driver, array):
    """The address of a copy of the array."""
    array = np.ascontiguousarray(array)
    address = driver.allocate(array.nbytes)
    driver.write(address, array)
    return address


def get(driver, address, like):
    return driver.read(address, like.nbytes).view(like.dtype).reshape(like.shape)


def run(text, *arrays, threads=32, blocks=1, shared=0, extra=(), driver=None, cooperative=False):
    """The arrays after the kernel has run on copies of them."""
    driver = driver or EmulatedDriver(multiprocessors=4)
    function = driver.function(driver.load(text.encode()), "k")
    addresses = [put(driver, array) for array in arrays]
    threads = threads if isinstance(threads, tuple) else (threads, 1, 1)
    blocks = blocks if isinstance(blocks, tuple) else (blocks, 1, 1)
    arguments = [*(np.uint64(a) for a in addresses), *extra]
    driver.launch(function, blocks, threads, shared, arguments, cooperative)
    return [get(driver, a, array) for a, array in zip(addresses, arrays, strict=True)]


def evaluate(code, result, *operands, width=None):
    """`code` per element: %a, %b, ... are the operands' elements, %d the result of that dtype.

    Elements of 1 byte are in registers of 16 bits. width: of the registers of the result, in bits.
    """
    count = len(operands[0])
    names = "abcdefg"[: len(operands)]
    out = np.zeros(count, result)
    lines, pointers = [".reg .b64 %at, %offset;", ".reg .pred %p, %q;", ".reg .b32 %x, %y;"], []
    for name, operand in zip(names, operands, strict=True):
        size = operand.dtype.itemsize
        lines += [
            f".reg .b{max(16, 8 * size)} %{name};",
            f"mul.wide.u32 %offset, %tid, {size};",
            f"add.u64 %at, %p{name}, %offset;",
            f"ld.global.b{8 * size} %{name}, [%at];",
        ]
        pointers.append(f"p{name}")
    bits = 8 * out.dtype.itemsize
    lines += [f".reg .b{width or max(16, bits)} %d;", code]
    lines += [f"mul.wide.u32 %offset, %tid, {bits // 8};", "add.u64 %at, %out, %offset;"]
    lines += [f"st.global.b{bits} [%at], %d;"]
    text = kernel("\n".join(lines), pointers=(*pointers, "out"))
    return run(text, *operands, out, threads=count)[-1]
