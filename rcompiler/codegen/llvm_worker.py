"""LLVM itself: code of a module, and what it says of the CPU of this machine. The only user of
llvmlite, by `emit`: as the program of a worker process, or in the process of the caller.

No mid-end is run by default: for kernels that are already vectorised, O1-O3 hoist loads out of the
register tile until it spills and lose up to half of the speed, and they cost most of the time.
Functions with the attribute "optimised-loops" work on one element at a time: LLVM makes vectors of
that (determinants of 64 x 64: 2.9 times as fast).
"""

import json
from collections.abc import Mapping
from functools import cache

import llvmlite
import llvmlite.binding as llvm

from rcompiler.codegen.llvm_job import HOST_CPU, TRIPLE, Job
from rcompiler.errors import CompilerError
from rcompiler.support.workers import serve_answers


def emit(job: Job) -> bytes:
    """Compile one module in this process.

    Raises:
        CompilerError: LLVM rejects the text.
    """
    _initialize()
    machine = llvm.Target.from_triple(job.triple).create_target_machine(
        cpu=job.cpu, features=job.features, opt=3, reloc="pic", codemodel="small"
    )
    try:
        # A context of its own: named types and metadata of other modules cannot leak in.
        module = llvm.parse_assembly(job.text, context=llvm.create_context())
        module.verify()
    except RuntimeError as error:
        raise CompilerError(
            f"code generation: LLVM {llvm.llvm_version_info[0]} rejects the translated module: "
            f"{error}; this is a defect of the compiler, report it with the model"
        ) from None
    module.triple = job.triple
    module.data_layout = str(machine.target_data)
    if job.optimised:
        tuning = llvm.create_pipeline_tuning_options(speed_level=2 if job.triple == TRIPLE else 3)
        tuning.loop_vectorization = tuning.slp_vectorization = True
        builder = llvm.create_pass_builder(machine, tuning)
        builder.getModulePassManager().run(module, builder)
    if job.assembly:
        return bytes(machine.emit_assembly(module).encode())
    return bytes(machine.emit_object(module))


def release() -> str:
    """The versions of llvmlite and of the LLVM that it carries."""
    return f"llvmlite {llvmlite.__version__}, LLVM {'.'.join(map(str, llvm.llvm_version_info))}"


def host_cpu() -> tuple[str, Mapping[str, bool]]:
    """LLVM's name of the CPU of this machine, and whether it has each feature that LLVM knows."""
    return llvm.get_host_cpu_name(), dict(llvm.get_host_cpu_features())


def serve() -> None:
    """Worker process: a `Job` as JSON for each question; the object, or the text of an error. For
    `HOST_CPU` the answer is `host_cpu` as JSON.
    """
    serve_answers(_answer)


def _answer(question: bytes) -> tuple[int, bytes]:
    if question == HOST_CPU:
        return 0, json.dumps(host_cpu()).encode()
    try:
        return 0, emit(Job(**json.loads(question)))
    except CompilerError as error:
        return 1, str(error).encode()


@cache
def _initialize() -> None:
    # Cheap; LLVM initialises itself since llvmlite 0.45.
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    # Loop strength reduction may give every address of a register tile a register of its own, and
    # then spills addresses and accumulators alike (measured: a 14x14 convolution at a quarter of
    # its speed). Our loops need no help: addresses are a base in the loop plus constants. llvmlite
    # offers the switch for the whole process only.
    llvm.set_option("rcompiler", "-disable-lsr")
    # Pointers to shared memory of NVIDIA GPUs in 32 bits. Together, measured by ptxas: a GEMM with
    # 8x8 accumulators a thread takes 128 registers for 166, with no address left in its loop.
    llvm.set_option("rcompiler", "--nvptx-short-ptr")
