// rc-opt reproducer; run it with: rc-opt --run-reproducer FILE
// pipeline: func.func(cse)
// allow-unregistered-dialect: true
func.func @f() {
  "some.op"() : () -> ()
  return
}
