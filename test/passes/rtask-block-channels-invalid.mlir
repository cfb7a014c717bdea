// RUN: not rc-opt %s -p 'rtask-block-channels{lanes=0}' 2>&1 | filecheck %s

// CHECK: error: rtask-block-channels: lanes must be at least 1, not 0
func.func @empty() { return }
