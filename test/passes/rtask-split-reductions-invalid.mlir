// RUN: not rc-opt %s -p 'rtask-split-reductions{device=abacus}' 2>&1 | filecheck %s

// CHECK: unknown target 'abacus'
func.func @empty() { return }
