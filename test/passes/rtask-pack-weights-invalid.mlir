// RUN: not rc-opt %s -p 'rtask-pack-weights{lanes=0}' 2>&1 | filecheck %s

// CHECK: error: rtask-pack-weights: lanes must be at least 1, not 0
func.func @empty() { return }
