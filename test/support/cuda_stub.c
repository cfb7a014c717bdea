// libcuda.so.1 for tests: a driver whose one GPU has memory and runs nothing.
//
// It is compiled with cuda.h, so each function has the type that the driver declares, and it stands
// under the real cuda-bindings. It refuses what the documentation of the driver forbids (a call
// without a context, addresses outside of an allocation, a tensor map that does not lie at a
// multiple of 64, arguments of a kernel that cannot be read), with the result that a driver gives.
//
// Device memory is memory of the host. What it should do besides is in the environment, which is
// read at every call, so a test changes it as it goes:
//   RC_STUB_DEVICES  how many GPUs there are; default 1
//   RC_STUB_VERSION  of the driver; default that of cuda.h
//   RC_STUB_MEMORY   bytes of device memory; default 1 GiB
//   RC_STUB_REFUSE   "elf", "ptx" or both: code that it does not load
//   RC_STUB_FAIL     FUNCTION=RESULT: what this function gives, at every call
//   RC_STUB_STOP     EU,EVENT,TARGET: the next launch writes this report and then traps
//   RC_STUB_LOG      a file that gets a line for each launch, map, load, and call that is refused
#include <cuda.h>

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PUBLIC __attribute__((visibility("default")))
#define CONTEXT ((CUcontext)0x1000)
#define STREAM ((CUstream)0x2000)
#define MODULE ((CUmodule)0x3000)
#define FUNCTION ((CUfunction)0x4000)
#define GRAPH ((CUgraph)0x5000)
#define EVENT ((CUevent)0x8000)
#define MULTIPROCESSORS 132
#define MOST_SHARED 232448
#define MOST_ALLOCATIONS 4096
#define MOST_NODES 256
#define PARAMETERS 4 // of the kernel: control words, base addresses, tensor maps, number of inferences
#define REPORT_WORD 9 // of the control words, see runtime/gpu/control.py
#define NEED(condition, result)                                                                    \
  do {                                                                                             \
    if (!(condition))                                                                              \
      return refused(__func__, result, #condition);                                                \
  } while (0)
// What every call but a few begins with.
#define ENTER                                                                                      \
  do {                                                                                             \
    CUresult wanted;                                                                               \
    if (dead)                                                                                      \
      return dead;                                                                                 \
    if (asked_to_fail(__func__, &wanted))                                                          \
      return refused(__func__, wanted, "RC_STUB_FAIL");                                            \
    NEED(started, CUDA_ERROR_NOT_INITIALIZED);                                                     \
  } while (0)
#define ENTER_CONTEXT                                                                              \
  ENTER;                                                                                           \
  NEED(contexts > 0, CUDA_ERROR_INVALID_CONTEXT)

typedef struct {
  char *start;
  size_t size;
  int host;
} Allocation;

typedef struct {
  CUDA_KERNEL_NODE_PARAMS what;
  unsigned long long values[PARAMETERS];
  void *places[PARAMETERS];
} Node;

static int started, contexts, capturing, shared_allowed = 48 << 10;
static CUresult dead, pending;
static Allocation allocations[MOST_ALLOCATIONS];
static Node nodes[MOST_NODES];
static size_t node_count;

static void note(const char *text, ...) {
  const char *path = getenv("RC_STUB_LOG");
  FILE *file = path ? fopen(path, "a") : NULL;
  if (!file)
    return;
  va_list arguments;
  va_start(arguments, text);
  vfprintf(file, text, arguments);
  va_end(arguments);
  fputc('\n', file);
  fclose(file);
}

static CUresult refused(const char *function, CUresult result, const char *why) {
  note("refused %s: %d, %s", function, (int)result, why);
  return result;
}

static int asked_to_fail(const char *function, CUresult *result) {
  const char *wanted = getenv("RC_STUB_FAIL");
  size_t length = wanted ? strcspn(wanted, "=") : 0;
  if (!length || strncmp(function, wanted, length))
    return 0;
  // cuMemAlloc is cuMemAlloc_v2 in the library
  if (function[length] && strncmp(function + length, "_v", 2))
    return 0;
  *result = (CUresult)atoi(wanted + length + 1);
  return 1;
}

static long long number(const char *name, long long otherwise) {
  const char *text = getenv(name);
  return text ? atoll(text) : otherwise;
}

static Allocation *holding(const void *place, size_t size) {
  for (int i = 0; i < MOST_ALLOCATIONS; i++) {
    Allocation *one = &allocations[i];
    if (one->start && (char *)place >= one->start &&
        (char *)place + size <= one->start + one->size)
      return one;
  }
  return NULL;
}

static Allocation *reserve(size_t size, int host) {
  size_t taken = size;
  Allocation *free_one = NULL;
  for (int i = 0; i < MOST_ALLOCATIONS; i++) {
    taken += allocations[i].host ? 0 : allocations[i].size;
    if (!allocations[i].start)
      free_one = &allocations[i];
  }
  if (!free_one || (!host && taken > (size_t)number("RC_STUB_MEMORY", 1 << 30)))
    return NULL;
  free_one->start = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
  free_one->size = size, free_one->host = host;
  memset(free_one->start, 0xAB, size);
  return free_one;
}

static int give_back(void *start, int host) {
  Allocation *one = holding(start, 0);
  if (!one || one->start != start || one->host != host)
    return 0;
  free(one->start);
  memset(one, 0, sizeof *one);
  return 1;
}

// -- start

PUBLIC CUresult cuGetProcAddress(const char *symbol, void **found, int version, cuuint64_t flags,
                                 CUdriverProcAddressQueryResult *status) {
  char name[256];
  (void)flags;
  *found = NULL;
  void *self = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  for (int k = 3; k > 0 && !*found; k--) {
    snprintf(name, sizeof name, k > 1 ? "%s_v%d" : "%s", symbol, k);
    *found = dlsym(self, name);
  }
  if (version > number("RC_STUB_VERSION", CUDA_VERSION))
    *found = NULL;
  if (status)
    *status = *found ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return *found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

PUBLIC CUresult cuInit(unsigned flags) {
  CUresult wanted;
  if (asked_to_fail(__func__, &wanted))
    return refused(__func__, wanted, "RC_STUB_FAIL");
  NEED(flags == 0, CUDA_ERROR_INVALID_VALUE);
  NEED(number("RC_STUB_DEVICES", 1) > 0, CUDA_ERROR_NO_DEVICE);
  started = 1;
  return CUDA_SUCCESS;
}

PUBLIC CUresult cuDriverGetVersion(int *version) {
  *version = (int)number("RC_STUB_VERSION", CUDA_VERSION);
  return CUDA_SUCCESS;
}

PUBLIC CUresult cuGetErrorString(CUresult result, const char **text) {
  static char said[64];
  snprintf(said, sizeof said, "the stub's result %d", (int)result);
  *text = said;
  return CUDA_SUCCESS;
}

PUBLIC CUresult cuDeviceGetCount(int *count) {
  ENTER;
  *count = (int)number("RC_STUB_DEVICES", 1);
  return CUDA_SUCCESS;
}

PUBLIC CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  ENTER;
  NEED(ordinal >= 0 && ordinal < number("RC_STUB_DEVICES", 1), CUDA_ERROR_INVALID_DEVICE);
  *device = ordinal;
  return CUDA_SUCCESS;
}

PUBLIC CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
  ENTER;
  snprintf(name, (size_t)length, "stub %d", device);
  return CUDA_SUCCESS;
}

PUBLIC CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  ENTER;
  (void)device;
  switch (attribute) {
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = 9; break;
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = 0; break;
  case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = MULTIPROCESSORS; break;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = MOST_SHARED; break;
  case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH: *value = 1; break;
  default: return refused(__func__, CUDA_ERROR_INVALID_VALUE, "an attribute that it lacks");
  }
  return CUDA_SUCCESS;
}

PUBLIC CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  ENTER;
  (void)device;
  *context = CONTEXT;
  return CUDA_SUCCESS;
}

PUBLIC CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  int left = 0;
  for (int i = 0; i < MOST_ALLOCATIONS; i++)
    left += allocations[i].start != NULL;
  note("released %d with %d allocations", device, left);
  return dead;
}

PUBLIC CUresult cuCtxPushCurrent(CUcontext context) {
  ENTER;
  NEED(context == CONTEXT, CUDA_ERROR_INVALID_CONTEXT);
  contexts++;
  return CUDA_SUCCESS;
}

PUBLIC CUresult cuCtxPopCurrent(CUcontext *context) {
  NEED(contexts > 0, CUDA_ERROR_INVALID_CONTEXT);
  contexts--;
  if (context)
    *context = CONTEXT;
  return dead;
}

PUBLIC CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
  ENTER_CONTEXT;
  NEED(flags <= CU_STREAM_NON_BLOCKING, CUDA_ERROR_INVALID_VALUE);
  *stream = STREAM;
  return CUDA_SUCCESS;
}

PUBLIC CUresult cuStreamDestroy(CUstream stream) {
  ENTER_CONTEXT;
  NEED(stream == STREAM, CUDA_ERROR_INVALID_HANDLE);
  return CUDA_SUCCESS;
}

PUBLIC CUresult cuStreamSynchronize(CUstream stream) {
  ENTER_CONTEXT;
  NEED(stream == STREAM || stream == CU_STREAM_LEGACY, CUDA_ERROR_INVALID_HANDLE);
  NEED(!capturing, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  dead = pending;
  return dead;
}

// -- memory

PUBLIC CUresult cuMemAlloc(CUdeviceptr *address, size_t size) {
  ENTER_CONTEXT;
  NEED(size > 0, CUDA_ERROR_INVALID_VALUE);
  Allocation *made = reserve(size, 0);
  NEED(made, CUDA_ERROR_OUT_OF_MEMORY);
  *address = (CUdeviceptr)made->start;
  return CUDA_SUCCESS;
}

PUBLIC CUresult cuMemFree(CUdeviceptr address) {
  ENTER_CONTEXT;
  NEED(give_back((void *)address, 0), CUDA_ERROR_INVALID_VALUE);
  return CUDA_SUCCESS;
}

PUBLIC CUresult cuMemHostAlloc(void **place, size_t size, unsigned flags) {
  ENTER_CONTEXT;
  NEED(flags <= 7, CUDA_ERROR_INVALID_VALUE);
  Allocation *made = reserve(size, 1);
  NEED(made, CUDA_ERROR_OUT_OF_MEMORY);
  *place = made->start;
  return CUDA_SUCCESS;
}

PUBLIC CUresult cuMemHostGetDevicePointer(CUdeviceptr *address, void *place, unsigned flags) {
  ENTER_CONTEXT;
  NEED(flags == 0 && holding(place, 1), CUDA_ERROR_INVALID_VALUE);
  *address = (CUdeviceptr)place;
  return CUDA_SUCCESS;
}

PUBLIC CUresult cuMemFreeHost(void *place) {
  ENTER_CONTEXT;
  NEED(give_back(place, 1), CUDA_ERROR_INVALID_VALUE);
  return CUDA_SUCCESS;
}

PUBLIC CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t size, CUstream stream) {
  ENTER_CONTEXT;
  NEED(stream == STREAM, CUDA_ERROR_INVALID_HANDLE);
  NEED(holding((void *)to, size), CUDA_ERROR_INVALID_VALUE);
  memset((void *)to, value, size);
  return CUDA_SUCCESS;
}

PUBLIC CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t size, CUstream stream) {
  ENTER_CONTEXT;
  NEED(stream == STREAM, CUDA_ERROR_INVALID_HANDLE);
  NEED(holding((void *)to, size) && holding(from, size), CUDA_ERROR_INVALID_VALUE);
  memcpy((void *)to, from, size);
  return CUDA_SUCCESS;
}

PUBLIC CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t size, CUstream stream) {
  ENTER_CONTEXT;
  NEED(stream == STREAM, CUDA_ERROR_INVALID_HANDLE);
  NEED(holding((void *)from, size) && holding(to, size), CUDA_ERROR_INVALID_VALUE);
  memcpy(to, (void *)from, size);
  return CUDA_SUCCESS;
}

PUBLIC CUresult cuPointerGetAttribute(void *value, CUpointer_attribute what, CUdeviceptr address) {
  ENTER_CONTEXT;
  Allocation *one = holding((void *)address, 1);
  NEED(one, CUDA_ERROR_INVALID_VALUE);
  if (what == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
    *(int *)value = 0;
  else if (what == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
    *(CUmemorytype *)value = one->host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  else
    return refused(__func__, CUDA_ERROR_INVALID_VALUE, "an attribute that it lacks");
  return CUDA_SUCCESS;
}

#include "cuda_stub_launches.h"
