// RUN: not rc-opt %s -p 'rtask-block-channels{lanes=0}' 2>&1 | filecheck %s
// RUN: not rc-opt %s -p 'rtask-block-channels{step-bytes=24}' 2>&1 | filecheck %s --check-prefix=TILES

// CHECK: error: rtask-block-channels: lanes must be at least 1, not 0
// TILES: error: rtask-block-channels: step_bytes must be a multiple of 16 lanes, not 24
func.func @empty() { return }
