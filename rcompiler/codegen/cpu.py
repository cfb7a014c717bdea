"""LLVM-dialect modules -> relocatable objects for x86-64 Linux, through an on-disk cache.

from rcompiler.codegen.cpu import ObjectCache, Target, compile_object
target = Target.named("x86-64-v3")
obj = compile_object(module, target, cache=ObjectCache(Path("cache")))
"""

import hashlib
import json
import warnings
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path

from torch_mlir import ir

from rcompiler.codegen.emit import Emission, host_cpu, toolchain
from rcompiler.codegen.llvm_ir import llvm_ir
from rcompiler.codegen.llvm_job import Job
from rcompiler.device.cgroups import usable_cpus
from rcompiler.device.host_flags import CPU_FLAGS, capped_level
from rcompiler.device.instruction_set import InstructionSet
from rcompiler.errors import CacheError, CacheWarning, DeviceError
from rcompiler.support.private_folder import PrivateFolder

# What the host target may use of a CPU: LLVM's feature name -> the kernel's flag in /proc/cpuinfo.
# An artifact needs what it may use, and nothing else: LLVM is told that the CPU lacks all the rest
# (sha, vaes, gfni and the like), which would be of no use to networks.
_CPUINFO = {
    "sse3": "pni",
    "sse4.1": "sse4_1",
    "sse4.2": "sse4_2",
    **CPU_FLAGS,
    "bmi": "bmi1",
    "avx512bitalg": "avx512_bitalg",
    "avx512vbmi2": "avx512_vbmi2",
    "avx512vpopcntdq": "avx512_vpopcntdq",
    **{
        same: same
        for same in (
            "sse sse2 ssse3 fma avx avx2 f16c bmi2 movbe popcnt "
            "avx512f avx512bw avx512cd avx512dq avx512vl avx512vbmi avx512ifma"
        ).split()
    },
}
_VNNI = frozenset({"avx512vnni", "avxvnni"})
_FUSED = frozenset({"fast-dpwssd"})
# Every CPU that runs 64-bit code has these; no flag needs to say so.
_BASELINE = frozenset({"64bit", "cmov", "cx8", "fxsr", "mmx", "x87"})
# LLVM's name of each feature level of devices
_LEVELS = {"x86-64": "x86-64", "v3": "x86-64-v3", "v4": "x86-64-v4"}


@dataclass(frozen=True)
class Target:
    """What to generate code for.

    Attributes:
        name: "host", "x86-64", "x86-64-v3" or "x86-64-v4", the latter with "+vnni" and the like.
        cpu: LLVM's name of the processor.
        features: LLVM's feature string, "" = those of `cpu`.
        required: flags that /proc/cpuinfo of the running machine must list, sorted.
    """

    name: str
    cpu: str
    features: str
    required: tuple[str, ...]

    @staticmethod
    def named(name: str) -> "Target":
        """The target called `name`; "host" is the machine this runs on, up to $RC_HOST_LEVEL.

        Raises:
            DeviceError: no target has this name.
        """
        if name == "host" and (level := capped_level()) is not None:
            return replace(Target.of(InstructionSet(level)), name=name)
        if name == "host":
            return _host_target(*host_cpu())
        cpu, plus, features = name.partition("+")
        level = next((level for level, llvm_name in _LEVELS.items() if llvm_name == cpu), "")
        if not level:
            raise _unknown(name)
        return Target.of(InstructionSet.named(level + plus + features))

    @staticmethod
    def of(instructions: InstructionSet) -> "Target":
        """The target of an instruction set.

        Raises:
            DeviceError: its level is none that code is generated for.
        """
        if instructions.level not in _LEVELS:
            raise _unknown(instructions.level)
        cpu = _LEVELS[instructions.level]
        return Target(
            "+".join((cpu, *instructions.beside)),
            cpu,
            ",".join(
                f"+{each}" for each in sorted(instructions.added | _tuning(instructions.added))
            ),
            tuple(sorted(instructions.flags)),
        )


def _unknown(name: str) -> DeviceError:
    known = ", ".join(_LEVELS.values())
    return DeviceError(f"no code generation target '{name}'; there are: host, {known}")


def _tuning(features: Set[str]) -> Set[str]:
    """What LLVM is told of CPUs that have these features. Without it LLVM takes a `vpdpwssd` apart
    where it finds a chain of them long: accumulators are many, so the fewer instructions count.
    """
    return _FUSED if features & _VNNI else frozenset()


def _host_target(cpu: str, found: Mapping[str, bool]) -> Target:
    """found: LLVM's features of the CPU, those it lacks too."""
    used = {f for f, there in found.items() if there and (f in _CPUINFO or f in _BASELINE)}
    known = {**dict.fromkeys(found, False), **dict.fromkeys(used | _tuning(used), True)}
    text = ",".join(f"{'+' if known[f] else '-'}{f}" for f in sorted(known))
    return Target("host", cpu, text, tuple(sorted(_CPUINFO[f] for f in used - _BASELINE)))


@dataclass
class ObjectCache:
    """A folder of objects by key. Entries carry the sha256 of key and object.

    A folder that cannot be read or written, or that others may write to, costs one `CacheWarning`
    and the time to compile: it is left alone from then on.
    """

    folder: Path
    usable: bool = True

    def get(self, key: str) -> bytes | None:
        """The object stored under `key`, or None; a damaged entry is reported and dropped."""
        name = f"{key}.o"
        if not self.usable:
            return None
        try:
            with PrivateFolder(self.folder) as folder:
                entry = folder.read(name)
        except FileNotFoundError:
            return None
        except (CacheError, OSError) as error:
            self._give_up(_reason(error, "read"))
            return None
        digest, code = entry[:32], entry[32:]
        if _digest(key, code) == digest:
            return code
        self._warn(f"entry {name} is damaged and is built again")
        return None

    def put(self, key: str, code: bytes) -> None:
        """Store an object; failure is only a warning."""
        if not self.usable:
            return
        try:
            with PrivateFolder(self.folder) as folder:
                folder.write(f"{key}.o", _digest(key, code) + code)
        except (CacheError, OSError) as error:
            self._give_up(_reason(error, "written"))

    def _give_up(self, what: str) -> None:
        self.usable = False
        self._warn(what)

    def _warn(self, what: str) -> None:
        warnings.warn(f"object cache {self.folder}: {what}", CacheWarning, stacklevel=4)


def _digest(key: str, code: bytes) -> bytes:
    """Of an entry: an object of another key in its place is found out."""
    return hashlib.sha256(key.encode() + b"\0" + code).digest()


def _reason(error: Exception, use: str) -> str:
    words = error.strerror if isinstance(error, OSError) else str(error)
    return f"cannot be {use} ({words}); objects are not kept"


def compile_object(
    module: str | ir.Module | ir.Operation,
    target: Target,
    *,
    optimize: bool = False,
    cache: ObjectCache | None = None,
) -> bytes:
    """Compile one llvm-dialect module to a relocatable, position-independent ELF object.

    Args:
        module: MLIR text, or a `builtin.module` of the llvm dialect.
        optimize: run LLVM's O2 first; for modules of loops that are not vectorised yet.

    Raises:
        PipelineError: an operation is not of the llvm dialect, or the text does not parse.
        CompilerError: LLVM rejects the module.
    """
    return compile_objects([module], target, optimize=optimize, cache=cache)[0]


def compile_objects(
    modules: Iterable[str | ir.Module | ir.Operation],
    target: Target,
    *,
    optimize: bool | Sequence[bool] = False,
    cache: ObjectCache | None = None,
    jobs: int | None = None,
) -> list[bytes]:
    """Compile several modules in worker processes, as many as are worth it.

    Args:
        modules: taken one by one; those before are compiled meanwhile.
        optimize: one flag for all modules, or one for each.
        jobs: number of worker processes; None = as many as useful, 0 = none, in this process.
    Errors as for `compile_object`.
    """
    flags = repeat(optimize) if isinstance(optimize, bool) else iter(optimize)
    with Objects(target, cache=cache, jobs=jobs) as objects:
        names = []
        for number, module in enumerate(modules):
            names.append(str(number))
            objects.add(names[-1], llvm_ir(module), optimize=next(flags))
        return objects.all(names)


class Objects:
    """Objects of modules that are compiled as they come. A context manager, see `Emission`."""

    def __init__(
        self, target: Target, *, cache: ObjectCache | None = None, jobs: int | None = None
    ) -> None:
        """jobs: as for `compile_objects`."""
        self._target, self._cache = target, cache
        self._keys: dict[str, str] = {}
        self._known: dict[str, bytes] = {}
        self._missing: dict[str, int] = {}
        self._emission = Emission(usable_cpus() if jobs is None else jobs)

    def __enter__(self) -> "Objects":
        return self

    def __exit__(self, *_: object) -> None:
        self._emission.__exit__()

    def add(self, name: str, text: str, *, optimize: bool = False) -> None:
        """Compile a module of LLVM IR, or find it in the cache. By one thread at a time."""
        job = Job(text, self._target.cpu, self._target.features, optimize)
        self._keys[name] = key = _key(job)
        if key in self._known or key in self._missing:
            return
        if self._cache and (code := self._cache.get(key)) is not None:
            self._known[key] = code
            return
        self._missing[key] = number = len(self._missing)
        self._emission.submit(number, job)

    def all(self, names: Iterable[str]) -> list[bytes]:
        """Those of these names; nothing can be added afterwards. Raises CompilerError if LLVM
        rejects one.
        """
        keys = [self._keys[name] for name in names]
        missing = {key: self._missing[key] for key in keys if key in self._missing}
        codes = self._emission.results(missing.values())
        for key, number in missing.items():
            self._known[key] = codes[number]
            if self._cache:
                self._cache.put(key, codes[number])
        return [self._known[key] for key in keys]


def _key(job: Job) -> str:
    facts = [job.text, job.cpu, job.features, job.optimize, toolchain()]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()
