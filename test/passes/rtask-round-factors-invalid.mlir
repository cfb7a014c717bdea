// RUN: not rc-opt %s -p 'rtask-round-factors{to=f8}' 2>&1 | filecheck %s

// CHECK: rtask-round-factors: option 'to'{{.*}}f8
func.func @empty() { return }
