// The second half of cuda_stub.c: code, tensor maps, launches and graphs.

// -- code

PUBLIC CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count,
                                   CUjit_option *options, void **values) {
  ENTER_CONTEXT;
  const char *kind = memcmp(image, "\x7f" "ELF", 4) ? "ptx" : "elf", *no = getenv("RC_STUB_REFUSE");
  NEED(kind[0] == 'e' || strstr(image, ".version "), CUDA_ERROR_INVALID_IMAGE);
  note("load %s", kind);
  if (!no || !strstr(no, kind)) {
    *module = MODULE;
    return CUDA_SUCCESS;
  }
  for (unsigned i = 0; i + 1 < count; i++)
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER &&
        options[i + 1] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
      snprintf(values[i], (size_t)values[i + 1], "the stub takes no %s", kind);
  return kind[0] == 'e' ? CUDA_ERROR_NO_BINARY_FOR_GPU : CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
}

PUBLIC CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  ENTER_CONTEXT;
  NEED(module == MODULE, CUDA_ERROR_INVALID_HANDLE);
  NEED(!strcmp(name, "veu"), CUDA_ERROR_NOT_FOUND);
  *function = FUNCTION;
  return CUDA_SUCCESS;
}

PUBLIC CUresult cuFuncGetAttribute(int *value, CUfunction_attribute what, CUfunction function) {
  ENTER_CONTEXT;
  NEED(function == FUNCTION, CUDA_ERROR_INVALID_HANDLE);
  *value = what == CU_FUNC_ATTRIBUTE_NUM_REGS                ? 168
           : what == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 256
                                                             : 0;
  return CUDA_SUCCESS;
}

PUBLIC CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute what, int value) {
  ENTER_CONTEXT;
  NEED(function == FUNCTION, CUDA_ERROR_INVALID_HANDLE);
  NEED(what == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES && value <= MOST_SHARED,
       CUDA_ERROR_INVALID_VALUE);
  shared_allowed = value;
  return CUDA_SUCCESS;
}

PUBLIC CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function,
                                                            int threads, size_t shared) {
  ENTER_CONTEXT;
  NEED(function == FUNCTION && threads > 0, CUDA_ERROR_INVALID_VALUE);
  *blocks = shared <= (size_t)shared_allowed;
  return CUDA_SUCCESS;
}

// -- tensor maps: what cuda.h says of each argument

PUBLIC CUresult cuTensorMapEncodeTiled(
    CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *tensor,
    const cuuint64_t *dims, const cuuint64_t *strides, const cuuint32_t *box,
    const cuuint32_t *steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
    CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  ENTER_CONTEXT;
  NEED((size_t)map % 64 == 0, CUDA_ERROR_INVALID_VALUE);
  NEED(type <= CU_TENSOR_MAP_DATA_TYPE_UINT64, CUDA_ERROR_INVALID_VALUE);
  NEED(rank >= 1 && rank <= 5 && interleave == CU_TENSOR_MAP_INTERLEAVE_NONE,
       CUDA_ERROR_INVALID_VALUE);
  NEED((size_t)tensor % 16 == 0 && holding(tensor, 1), CUDA_ERROR_INVALID_VALUE);
  NEED(promotion <= CU_TENSOR_MAP_L2_PROMOTION_L2_256B && fill == 0, CUDA_ERROR_INVALID_VALUE);
  unsigned bytes[] = {1, 2, 4, 4, 8, 8}, row = box[0] * bytes[type]; // of the types from UINT8 on
  NEED(row % 16 == 0 && swizzle <= CU_TENSOR_MAP_SWIZZLE_128B, CUDA_ERROR_INVALID_VALUE);
  NEED(!swizzle || row <= 16u << swizzle, CUDA_ERROR_INVALID_VALUE);
  for (cuuint32_t k = 0; k < rank; k++) {
    NEED(dims[k] >= 1 && dims[k] <= 1ull << 31, CUDA_ERROR_INVALID_VALUE);
    NEED(box[k] >= 1 && box[k] <= 256 && steps[k] >= 1 && steps[k] <= 8, CUDA_ERROR_INVALID_VALUE);
    NEED(k + 1 == rank || (strides[k] % 16 == 0 && strides[k] < 1ull << 40),
         CUDA_ERROR_INVALID_VALUE);
  }
  note("map of rank %u", rank);
  memset(map, 0, sizeof *map);
  memcpy(map, &tensor, sizeof tensor);
  return CUDA_SUCCESS;
}

// -- launches

static int readable(unsigned long long address) { return holding((void *)address, 8) != NULL; }

// The report of a wait that takes too long, as the kernel writes it; see runtime/gpu/control.py.
static void stop(const unsigned long long *control) {
  long long eu, event, target, *report = (long long *)control[REPORT_WORD];
  if (!getenv("RC_STUB_STOP") ||
      sscanf(getenv("RC_STUB_STOP"), "%lld,%lld,%lld", &eu, &event, &target) != 3)
    return;
  report[0] = 1, report[1] = eu, report[2] = event, report[3] = target, report[4] = 0;
  pending = CUDA_ERROR_LAUNCH_FAILED;
}

static CUresult run(const CUDA_KERNEL_NODE_PARAMS *what, int cooperative) {
  unsigned long long values[PARAMETERS];
  for (int i = 0; i < PARAMETERS; i++)
    memcpy(&values[i], what->kernelParams[i], 8);
  const unsigned long long *control = (void *)values[0];
  NEED(holding(control, 8 * (REPORT_WORD + 1)) && readable(values[1]), CUDA_ERROR_INVALID_VALUE);
  NEED(readable(control[0]) && readable(control[1]) && readable(control[2]),
       CUDA_ERROR_INVALID_VALUE);
  NEED(control[6] == what->gridDimX && control[8] > 0, CUDA_ERROR_INVALID_VALUE);
  Allocation *report = holding((void *)control[REPORT_WORD], 8);
  NEED(report && report->host, CUDA_ERROR_INVALID_VALUE);
  note("launch %u blocks of %u threads, %u bytes, cooperative %d, inference %llu", what->gridDimX,
       what->blockDimX, what->sharedMemBytes, cooperative, values[3]);
  stop(control);
  return CUDA_SUCCESS;
}

static CUresult launch(CUDA_KERNEL_NODE_PARAMS what, int cooperative) {
  NEED(what.func == FUNCTION, CUDA_ERROR_INVALID_HANDLE);
  NEED(what.gridDimX > 0 && what.blockDimX > 0 && what.blockDimX <= 1024, CUDA_ERROR_INVALID_VALUE);
  NEED(what.sharedMemBytes <= (unsigned)shared_allowed, CUDA_ERROR_INVALID_VALUE);
  NEED(!cooperative || what.gridDimX <= MULTIPROCESSORS, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
  if (!capturing)
    return run(&what, cooperative);
  NEED(node_count < MOST_NODES, CUDA_ERROR_OUT_OF_MEMORY);
  Node *node = &nodes[node_count++];
  for (int i = 0; i < PARAMETERS; i++) {
    memcpy(&node->values[i], what.kernelParams[i], 8);
    node->places[i] = &node->values[i];
  }
  node->what = what;
  node->what.kernelParams = node->places;
  return CUDA_SUCCESS;
}

static CUDA_KERNEL_NODE_PARAMS of(CUfunction function, unsigned gx, unsigned gy, unsigned gz,
                                  unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                  void **parameters) {
  CUDA_KERNEL_NODE_PARAMS made = {0};
  made.func = function, made.sharedMemBytes = shared, made.kernelParams = parameters;
  made.gridDimX = gx, made.gridDimY = gy, made.gridDimZ = gz;
  made.blockDimX = bx, made.blockDimY = by, made.blockDimZ = bz;
  return made;
}

PUBLIC CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                               unsigned by, unsigned bz, unsigned shared, CUstream stream,
                               void **parameters, void **extra) {
  ENTER_CONTEXT;
  NEED(stream == STREAM && !extra && parameters, CUDA_ERROR_INVALID_VALUE);
  return launch(of(f, gx, gy, gz, bx, by, bz, shared, parameters), 0);
}

PUBLIC CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz,
                                          unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                          CUstream stream, void **parameters) {
  ENTER_CONTEXT;
  NEED(stream == STREAM && parameters, CUDA_ERROR_INVALID_VALUE);
  return launch(of(f, gx, gy, gz, bx, by, bz, shared, parameters), 1);
}

// -- graphs: there is one at a time

PUBLIC CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
  ENTER_CONTEXT;
  NEED(stream == STREAM && mode <= CU_STREAM_CAPTURE_MODE_RELAXED, CUDA_ERROR_INVALID_VALUE);
  NEED(!capturing, CUDA_ERROR_ILLEGAL_STATE);
  capturing = 1, node_count = 0;
  return CUDA_SUCCESS;
}

PUBLIC CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  ENTER_CONTEXT;
  NEED(stream == STREAM && capturing, CUDA_ERROR_ILLEGAL_STATE);
  capturing = 0;
  *graph = GRAPH;
  return CUDA_SUCCESS;
}

PUBLIC CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *found, size_t *count) {
  ENTER_CONTEXT;
  NEED(graph == GRAPH, CUDA_ERROR_INVALID_HANDLE);
  for (size_t i = 0; found && i < *count; i++)
    found[i] = i < node_count ? (CUgraphNode)&nodes[i] : NULL;
  if (!found || node_count < *count)
    *count = node_count;
  return CUDA_SUCCESS;
}

PUBLIC CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *what) {
  ENTER_CONTEXT;
  *what = ((Node *)node)->what;
  return CUDA_SUCCESS;
}

PUBLIC CUresult cuGraphInstantiateWithFlags(CUgraphExec *made, CUgraph graph,
                                            unsigned long long flags) {
  ENTER_CONTEXT;
  NEED(graph == GRAPH && flags == 0, CUDA_ERROR_INVALID_VALUE);
  *made = (CUgraphExec)nodes;
  return CUDA_SUCCESS;
}

PUBLIC CUresult cuGraphExecKernelNodeSetParams(CUgraphExec graph, CUgraphNode node,
                                               const CUDA_KERNEL_NODE_PARAMS *what) {
  ENTER_CONTEXT;
  Node *mine = (Node *)node;
  NEED(graph == (CUgraphExec)nodes && what->func == FUNCTION && !what->extra && what->kernelParams,
       CUDA_ERROR_INVALID_VALUE);
  NEED(what->gridDimX == mine->what.gridDimX && what->blockDimX == mine->what.blockDimX &&
           what->sharedMemBytes == mine->what.sharedMemBytes,
       CUDA_ERROR_INVALID_VALUE);
  for (int i = 0; i < PARAMETERS; i++)
    memcpy(&mine->values[i], what->kernelParams[i], 8);
  return CUDA_SUCCESS;
}

PUBLIC CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream) {
  ENTER_CONTEXT;
  NEED(graph == (CUgraphExec)nodes && stream == STREAM, CUDA_ERROR_INVALID_HANDLE);
  note("graph of %zu launches", node_count);
  CUresult result = CUDA_SUCCESS;
  for (size_t i = 0; i < node_count && !result; i++)
    result = run(&nodes[i].what, 1);
  return result;
}

PUBLIC CUresult cuGraphExecDestroy(CUgraphExec graph) {
  ENTER_CONTEXT;
  NEED(graph == (CUgraphExec)nodes, CUDA_ERROR_INVALID_HANDLE);
  return CUDA_SUCCESS;
}

PUBLIC CUresult cuGraphDestroy(CUgraph graph) {
  ENTER_CONTEXT;
  NEED(graph == GRAPH, CUDA_ERROR_INVALID_HANDLE);
  return CUDA_SUCCESS;
}

// -- events

PUBLIC CUresult cuEventCreate(CUevent *event, unsigned flags) {
  ENTER_CONTEXT;
  NEED(flags <= 7, CUDA_ERROR_INVALID_VALUE);
  *event = EVENT;
  return CUDA_SUCCESS;
}

PUBLIC CUresult cuEventRecord(CUevent event, CUstream stream) {
  ENTER_CONTEXT;
  NEED(event == EVENT && stream == STREAM, CUDA_ERROR_INVALID_HANDLE);
  return CUDA_SUCCESS;
}

PUBLIC CUresult cuEventSynchronize(CUevent event) {
  ENTER_CONTEXT;
  NEED(event == EVENT, CUDA_ERROR_INVALID_HANDLE);
  dead = pending;
  return dead;
}

PUBLIC CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end) {
  ENTER_CONTEXT;
  NEED(start == EVENT && end == EVENT, CUDA_ERROR_INVALID_HANDLE);
  *ms = 0.25f;
  return CUDA_SUCCESS;
}

PUBLIC CUresult cuEventDestroy(CUevent event) {
  ENTER_CONTEXT;
  NEED(event == EVENT, CUDA_ERROR_INVALID_HANDLE);
  return CUDA_SUCCESS;
}
