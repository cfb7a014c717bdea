// rc-opt reproducer; run it with: rc-opt --run-reproducer FILE
// pipeline: rc-cpu{device=default policy=os:getcwd}
// allow-unregistered-dialect: false
module {}
