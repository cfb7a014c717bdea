// RUN: not rc-opt %s -p rtask-merge-siblings 2>&1 | filecheck %s

// CHECK: rtask-merge-siblings: the module does not say which device it is for
func.func @empty() { return }
