// RUN: not rc-opt %s -p 'rtask-round-tables{to=f8}' 2>&1 | filecheck %s

// CHECK: rtask-round-tables: option 'to'{{.*}}f8
func.func @empty() { return }
