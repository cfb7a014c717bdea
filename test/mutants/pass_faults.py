"""One seeded fault in each pass, and the check that finds it."""

from .fault import Fault

FAULTS = (
    Fault(
        "roller-tile-tasks", "passes/roller_tile_tasks.py",
        "start = indices.lowest([start, Linear(high)])", "start = indices.lowest([start, end])",
        "passes/roller-tile-tasks.mlir", "text", "error",
    ),
    Fault(
        "roller-tile-reductions", "passes/roller_tile_reductions.py",
        "if size > end:", "if size < end:",
        "passes/roller-tile-registers.mlir", "text", "error",
    ),
    Fault(
        "roller-tile-registers", "passes/tiles/nest.py",
        "position = end\n", "position = position + size\n",
        "e2e/test_task_bodies.py::test_the_text_of_what_the_passes_make_is_proved[mlp]",
        "proof", "is written",
    ),
    Fault(
        "roller-tile-threads", "passes/tiles/thread_nest.py",
        "start += size * count", "start += size",
        "passes/roller-tile-threads.mlir", "text", "error",
    ),
    Fault(
        "roller-tidy-tasks", "passes/roller_tidy_tasks.py",
        "if is_tiled(op):", "if op:",
        "passes/roller-tidy-tasks.mlir", "text", "error",
    ),
    Fault(
        "vdevice-attach-device", "passes/vdevice_attach_device.py",
        "Attached(self.device, self.precision,", "Attached(self.device, \"f32\",",
        "passes/vdevice-attach-device.mlir", "text", "error",
    ),
    Fault(
        "fold-constants", "passes/constants/fold.py",
        "made[box] = source.reshape(made[box].shape)", "made[box] = source.reshape(-1)[0]",
        "passes/test_fold.py", "result", "Mismatched|assert",
    ),
    Fault(
        "rtask-form", "passes/rtask_form.py",
        "if outside or part or base in seen:", "if outside or part:",
        "e2e/test_edges.py::test_an_output_that_is_an_input_a_constant_or_another_output",
        "failure", "output 3 is an input, a constant or another output",
    ),
    Fault(
        "rtask-stitch", "passes/rtask_stitch.py",
        "if not (unpacks or self._can_stitch(producer)) or not _only_reader(producer, reader):",
        "if not (unpacks or self._can_stitch(producer)):",
        "passes/rtask-stitch.mlir", "text", "error",
    ),
    Fault(
        "rtask-defer-normalisation", "passes/rtask_defer_normalisation.py",
        "if factor is None or not factor > 0:", "if factor is None or not factor < 0:",
        "passes/rtask-defer-normalisation.mlir", "text", "error",
    ),
    Fault(
        "rtask-stage-rows", "passes/rtask_stage_rows.py",
        "if not fits:", "if fits:",
        "passes/rtask-stage-rows.mlir", "text", "error",
    ),
    Fault(
        "rtask-lift-scales", "passes/rtask_lift_scales.py",
        "if len(set(numbers)) > 1", "if numbers",
        "passes/rtask-lift-scales.mlir", "text", "error",
    ),
    Fault(
        "rtask-update-state", "passes/rtask_update_state.py",
        "following.get(state)", "next(iter(following.values()))",
        "passes/rtask-update-state.mlir", "text", "error",
    ),
    Fault(
        "rtask-fuse-axes", "passes/ir/tensor_ir.py",
        "[renamed[group[0]] for group in groups]", "[renamed[group[-1]] for group in groups[::-1]]",
        "e2e/test_fuse_axes.py::test_results_are_right", "failure", "rtask-fuse-axes",
    ),
    Fault(
        "rtask-batch-products", "passes/rtask_batch_products.py",
        "[rows * i if a == out", "[rows * (len(parts) - 1 - i) if a == out",
        "e2e/test_batch_products.py::test_networks_as_written", "result", "Mismatched|assert",
    ),
    Fault(
        "rtask-merge-siblings", "passes/rtask_merge_siblings.py",
        "concatenate([s.weights for s in members]",
        "concatenate([s.weights for s in members[::-1]]",
        "e2e/test_siblings.py::test_siblings", "result", "Mismatched|assert",
    ),
    Fault(
        "rtask-expand-products", "passes/rtask_expand_products.py",
        "return [own[isinstance(expression, ir.AffineModExpr)]]",
        "return [own[isinstance(expression, ir.AffineFloorDivExpr)]]",
        "passes/rtask-expand-products.mlir", "text", "error",
    ),
    Fault(
        "rtask-block-channels", "passes/rtask_block_channels.py",
        "o // self.layouts.lanes if i == form.axis", "0 * o if i == form.axis",
        "passes/test_block_channels.py::test_same_numbers", "result", "Mismatched|assert",
    ),
    Fault(
        "rtask-winograd", "roller/winograd.py",
        "point**k / weight for k", "point**k * weight for k",
        "e2e/test_roots.py::test_right", "result", "Mismatched|assert",
    ),
    Fault(
        "rtask-sink-reshapes", "passes/rtask_sink_reshapes.py",
        "len(group) > 1 and any(sides)", "len(group) > 2 and any(sides)",
        "passes/rtask-sink-reshapes.mlir", "text", "error",
    ),
    Fault(
        "rtask-pack-weights", "passes/rtask_pack_weights.py",
        "lane = ir.AffineExpr.get_mod(reads[column], self.lanes)",
        "lane = ir.AffineExpr.get_mod(reads[column], 2)",
        "e2e/test_siblings.py::test_siblings", "result", "Mismatched|assert",
    ),
    Fault(
        "rtask-group-dots", "passes/rtask_group_dots.py",
        "results = [results[i] for i in order]", "results = sorted(results, key=str)",
        "passes/rtask-group-dots.mlir", "text", "error",
    ),
    Fault(
        "rtask-turn-bytes", "passes/rtask_turn_bytes.py",
        "for dim in sorted(steps)", "for dim in sorted(steps, reverse=True)",
        "passes/rtask-turn-bytes.mlir", "text", "error",
    ),
    Fault(
        "rtask-split-k", "passes/ir/reduction_parts.py",
        "size = old.sizes[dim] // parts", "size = old.sizes[dim] // parts - 1",
        "e2e/test_split_k.py::test_a_wide_device_takes_two_steps_and_the_result_is_right",
        "failure", "rtask-split",
    ),
    Fault(
        "rtask-split-reductions", "passes/rtask_split_reductions.py",
        "return old.combiner not in _ROUNDED or element_of(old.inits[0]) in (\"f32\", \"f64\")",
        "return True",
        "passes/rtask-split-reductions.mlir", "text", "error",
    ),
    Fault(
        "rtask-round-factors", "passes/rtask_round_factors.py",
        "for number in factors:", "for number in factors[:1]:",
        "passes/rtask-round-factors.mlir", "text", "error",
    ),
    Fault(
        "rtask-round-tables", "passes/rtask_round_tables.py",
        "elif not _rounds(reader, element):", "elif False:",
        "passes/rtask-round-tables.mlir", "text", "error",
    ),
    Fault(
        "rtask-widen-bytes", "passes/rtask_widen_bytes.py",
        "int(edge) if signed else int(edge) & 0xFF", "int(edge)",
        "passes/rtask-widen-bytes.mlir", "text", "error",
    ),
    Fault(
        "rtask-widen-factors", "passes/rtask_widen_factors.py",
        "return math.prod(others) >= _LEAST or old.windowed", "return True",
        "passes/rtask-widen-factors.mlir", "text", "error",
    ),
    Fault(
        "rtask-widen-halves", "passes/halves/stored.py",
        'op.name == "arith.truncf" and ROUNDING in op.attributes', "False",
        "e2e/test_halves.py::test_a_cast_rounds[f16-cpu]", "result", "Mismatched|assert",
    ),
    Fault(
        "roller-tile", "passes/roller_tile.py",
        "decision.tile[position], decision.grid[position]",
        "decision.tile[position], max(decision.grid[position] - 1, 1)",
        "e2e/test_edges.py::test_the_range_of_all_elements", "proof", "written|tasks|cover|grid",
    ),
    Fault(
        "rammer-schedule", "rammer/policy/events.py",
        "if not number:", "if number < 2:",
        "unit/test_rammer_policy.py::test_every_policy_makes_valid_schedules",
        "proof", "race|assert",
    ),
    Fault(
        "vdevice-pool-weights", "passes/vdevice_pool_weights.py",
        "after[whole] + before[name] - before[whole]", "after[whole]",
        "passes/vdevice-pool-weights.mlir", "text", "error",
    ),
    Fault(
        "vdevice-pin", "passes/vdevice_pin.py",
        "first, count, 1, step, [key[0], name]", "first, count, 1, 0, [key[0], name]",
        "e2e/test_gpu_pinned.py::test_each_block_brings_its_part_of_the_weights_once",
        "proof", "OptionalPassWarning.*vdevice-pin",
    ),
    Fault(
        "vdevice-prefetch", "passes/vdevice_prefetch.py",
        "own = [buffers[k] for k in wanted]", "own = [buffers[0] for k in wanted]",
        "passes/vdevice-prefetch.mlir", "text", "error",
    ),
    Fault(
        "vdevice-to-cpu", "kernelgen/typed_ops.py",
        "self.add(self.mul(x, y), z)", "self.sub(self.mul(x, y), z)",
        "e2e/test_feature_levels.py::test_models[mlp-cpu:x86-64]", "result", "Difference",
    ),
    Fault(
        "vdevice-to-gpu", "passes/vdevice_to_gpu.py",
        "module_text(written, shared, boxes)", "module_text(written, 0, boxes)",
        "e2e/test_gpu.py::test_any_order_of_blocks_gives_the_same_bits[attention-0]",
        "result", "shared|outside|assert",
    ),
    Fault(
        "vdevice-validate", "passes/vdevice_validate.py",
        "proved_tables(module)", "pass",
        "passes/vdevice-validate-invalid.mlir", "text", "error",
    ),
    Fault(
        "gpu-to-nvvm", "passes/gpu_to_nvvm.py",
        "if architecture < first or", "if architecture <= first or",
        "passes/gpu-to-nvvm.mlir", "text", "error",
    ),
    Fault(
        "gpu-to-rocdl", "passes/gpu_to_rocdl.py",
        "in (\"nvgpu\", \"nvvm\")", "in (\"nvgpu\",)",
        "passes/gpu-to-rocdl-invalid.mlir", "text", "error",
    ),
    Fault(
        "rtask-guard", "linalg/conditions.py",
        "for holds in (True, False)]", "for holds in (False, True)]",
        "passes/rtask-guard.mlir", "text", "error",
    ),
    Fault(
        "rtask-dce", "passes/rtask_dce.py",
        "elif op.name == \"vdevice.run\":", "elif op.name == \"vdevice.runs\":",
        "passes/rtask-dce.mlir", "text", "error",
    ),
)  # fmt: skip
