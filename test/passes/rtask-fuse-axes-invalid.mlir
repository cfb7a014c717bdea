// RUN: not rc-opt %s -p rtask-fuse-axes 2>&1 | filecheck %s

// CHECK: rtask-fuse-axes: the module does not say which device it is for
func.func @empty() { return }
