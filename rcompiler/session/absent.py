"""What onnxruntime has and there is not here: why, and what to do.

A name of this table raises an AbsentError, which is an AttributeError, too, so that a program that
asks `hasattr` before it goes on is told that there is none.
"""

from __future__ import annotations

from typing import Any

from rcompiler.errors import AbsentError

_HOST = 'values of sessions lie in memory of the host, "cpu": leave it out'
_GPU = "models for a GPU take arrays there by their own bind (docs/gpu.md)"
_EP = "there are no execution providers to choose: target= says for what a model is compiled"
_WEIGHTS = "write the numbers into the model before: onnx.numpy_helper.from_array"
_SPARSE = "sparse tensors are not translated: give dense ones"
_RECORD = "programs[0].report() says what became of each node"
_CAPTURE = "no graph is captured: a program is one schedule, which each call runs; leave it out"
_COMPILED = "compile with rcompiler.compile_onnx, and save what it returns"
_THREADS = "each model has threads of its own: set SessionOptions.intra_op_num_threads"

# By class, "" for the module: each name, and what to do instead.
ABSENT: dict[str, dict[str, str]] = {
    "": {
        **dict.fromkeys(("OrtDevice", "OrtMemoryInfo", "OrtAllocatorType", "OrtMemType"), _HOST),
        **dict.fromkeys(("OrtDeviceMemoryType", "OrtDeviceVendorId", "OrtArenaCfg"), _HOST),
        **dict.fromkeys(("OrtMemoryInfoDeviceType", "OrtExternalInitializerInfo"), _HOST),
        **dict.fromkeys(("create_and_register_allocator", "copy_tensors"), _HOST),
        "create_and_register_allocator_v2": _HOST,
        **dict.fromkeys(("OrtSyncStream", "cuda_version", "preload_dlls"), _GPU),
        **dict.fromkeys(("OrtEpDevice", "OrtHardwareDevice", "OrtHardwareDeviceType"), _EP),
        **dict.fromkeys(("OrtExecutionProviderDevicePolicy", "get_ep_devices"), _EP),
        "register_execution_provider_library": _EP,
        "unregister_execution_provider_library": _EP,
        **dict.fromkeys(("OrtEpAssignedNode", "OrtEpAssignedSubgraph"), _RECORD),
        **dict.fromkeys(("SparseTensor", "OrtSparseFormat"), _SPARSE),
        **dict.fromkeys(("ModelCompiler", "OrtCompileApiFlags"), _COMPILED),
        **dict.fromkeys(("OrtEpContextData", "OrtEpContextDataBuffer"), _COMPILED),
        **dict.fromkeys(("ModelPackage", "ModelPackageContext", "ModelPackageOptions"), _COMPILED),
        **dict.fromkeys(("ModelPackageComponentContext", "ModelPackageWriteMode"), _COMPILED),
        **dict.fromkeys(("LoraAdapter", "AdapterFormat"), "merge the adapter into the weights"),
        "SessionIOBinding": "make a binding by InferenceSession.io_binding()",
        "capi": "it has the insides of onnxruntime: use the names of rcompiler",
        **dict.fromkeys(("get_build_info", "get_version_string"), "read rcompiler.__version__"),
        **dict.fromkeys(("print_debug_info", "has_collective_ops"), "read rcompiler.__version__"),
        "set_default_logger_callback": "nothing is logged; errors are exceptions",
        "set_global_thread_pool_sizes": _THREADS,
    },
    "InferenceSession": {
        "create_ortvalue_from_shape_and_type": "use OrtValue.ortvalue_from_shape_and_type",
        "get_input_epdevices": _EP,
        **dict.fromkeys(("get_input_memory_infos", "get_output_memory_infos"), _HOST),
        "get_provider_graph_assignment_info": _RECORD,
        "release_captured_graph": _CAPTURE,
        "run_with_ortvaluevector": "use run_with_ort_values, or io_binding",
        "set_ep_dynamic_options": _EP,
        "set_tuning_results": "plans are kept in the cache, and tuned by tune= of compile_onnx",
    },
    "SessionOptions": {
        **dict.fromkeys(("add_initializer", "add_external_initializers"), _WEIGHTS),
        "add_external_initializers_from_files_in_memory": _WEIGHTS,
        "add_free_dimension_override_by_denotation": "use add_free_dimension_override_by_name",
        "add_provider_for_devices": _EP,
        "set_load_cancellation_flag": "a compilation is not stopped: make the session in a process",
        "set_provider_selection_policy_delegate": _EP,
        "set_ep_context_data_read_func": _COMPILED,
        "clear_ep_context_data_read_func": _COMPILED,
    },
    "RunOptions": {"add_active_adapter": "merge the adapter into the weights"},
    "OrtValue": {
        "as_sparse_tensor": _SPARSE,
        "ort_value_from_sparse_tensor": _SPARSE,
    },
}


def absent(kind: str, name: str) -> AttributeError:
    """What to raise for a name that is not there.

    Args:
        kind: the class, "" for the module.
        name: of the attribute.

    Returns:
        An AbsentError where onnxruntime has it.
    """
    remedy = ABSENT.get(kind, {}).get(name)
    if remedy is None:
        whose = f"'{kind}' object" if kind else "module 'rcompiler'"
        return AttributeError(f"{whose} has no attribute {name!r}")
    return AbsentError(f"{kind or 'rcompiler'}.{name} of onnxruntime is not here: {remedy}")


class KnowsAbsent:
    """A class of which onnxruntime has further names."""

    def __getattr__(self, name: str) -> Any:
        """Of what is not there."""
        names = [each.__name__ for each in type(self).__mro__]
        raise absent(next((each for each in names if each in ABSENT), names[0]), name)
