// Input that is not there, is no text, or is no MLIR: one line and exit code 1.
// RUN: not rc-opt %t.absent 2>&1 | filecheck %s --check-prefix=ABSENT
// RUN: not rc-opt %S 2>&1 | filecheck %s --check-prefix=FOLDER
// RUN: %{python} -c "import pathlib; pathlib.Path(r'%t.latin').write_bytes(b'// caf\xe9')"
// RUN: not rc-opt %t.latin 2>&1 | filecheck %s --check-prefix=LATIN
// RUN: not rc-opt %s 2>&1 | filecheck %s --check-prefix=SYNTAX
// RUN: not rc-opt - < %s 2>&1 | filecheck %s --check-prefix=STDIN
// RUN: not rc-opt - --allow-unregistered-dialect -o %t.absent/out < /dev/null 2>&1 | filecheck %s --check-prefix=OUTPUT
// Wrong arguments are exit code 2.
// RUN: %{python} -c "import subprocess; r = subprocess.run(['rc-opt', '--nope'], capture_output=True, text=True); print(r.returncode, r.stderr)" | filecheck %s --check-prefix=USAGE

// ABSENT:      {{^}}rc-opt: {{.*}}.absent: cannot read: No such file or directory{{$}}
// ABSENT-NOT:  {{.+}}
// FOLDER:      {{^}}rc-opt: {{.*}}: cannot read: Is a directory
// LATIN:       {{^}}rc-opt: {{.*}}.latin: not UTF-8 text (byte 6)
// SYNTAX:      rc-opt-input-errors.mlir:22:24: error: custom op 'retrun' is unknown (tried 'func.retrun' as well){{$}}
// SYNTAX-NOT:  {{.+}}
// STDIN:       {{^}}-:{{[0-9]+}}:24: error: custom op 'retrun' is unknown (tried 'func.retrun' as well){{$}}
// OUTPUT:      {{^}}rc-opt: {{.*}}.absent/out: cannot write: No such file or directory{{$}}
// USAGE:       2 rc-opt: unrecognized arguments: --nope; see rc-opt --help{{$}}
// USAGE-NOT:   {{.+}}
func.func @misspelt() {retrun}
