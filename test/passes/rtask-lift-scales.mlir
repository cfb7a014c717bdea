// RUN: rc-opt %s -p 'rtask-lift-scales' --split-input-file | filecheck %s

#id = affine_map<(m) -> (m)>
#one = affine_map<(m) -> ()>

// Two rOperators that differ in scales, bounds and zero points: all of these are lifted, the zero
// point of both as one word. What the two have in common stays: the bound 0.5.
// CHECK-LABEL: func.func @scales
// CHECK:         %[[F:.*]] = arith.constant dense<[2.000000e-02, 1.000000e+01, {{.*}}]> : tensor<4xf32>
// CHECK:         %[[Z:.*]] = arith.constant dense<130> : tensor<1xi32>
// CHECK:         "rtask.operator"
// CHECK-DAG:       %[[S:.*]] = tensor.extract_slice %[[F]][0] [1] [1] : tensor<4xf32> to tensor<f32>
// CHECK-DAG:       %[[B:.*]] = tensor.extract_slice %[[F]][1] [1] [1] : tensor<4xf32> to tensor<f32>
// CHECK-DAG:       %[[R:.*]] = tensor.extract_slice %[[F]][2] [1] [1] : tensor<4xf32> to tensor<f32>
// CHECK-DAG:       %[[E:.*]] = tensor.extract_slice %[[F]][3] [1] [1] : tensor<4xf32> to tensor<f32>
// CHECK-DAG:       %[[N:.*]] = tensor.extract_slice %[[Z]][0] [1] [1] : tensor<1xi32> to tensor<i32>
// CHECK:           linalg.generic {{.*}} ins(%{{.*}}, %[[S]], %[[N]] : tensor<64xi8>, tensor<f32>, tensor<i32>)
// CHECK-NEXT:      ^bb0(%[[IN:.*]]: i8, %[[SCALE:.*]]: f32, %[[ZERO:.*]]: i32, %{{.*}}: f32):
// CHECK-NEXT:        %[[WIDE:.*]] = arith.extui %[[IN]] : i8 to i32
// CHECK-NEXT:        arith.subi %[[WIDE]], %[[ZERO]] : i32
// CHECK:           linalg.generic {{.*}} ins(%{{.*}}, %[[B]], %[[N]], %[[R]], %[[E]] :
// CHECK-NEXT:      ^bb0(%{{.*}}: f32, %[[HIGH:.*]]: f32, %[[Z0:.*]]: i32, %[[R0:.*]]: f32, %[[E0:.*]]: f32, %{{.*}}: i8):
// CHECK:             %[[LOW:.*]] = arith.constant -5.000000e-01 : f32
// CHECK:             %[[X:.*]] = arith.select %{{.*}}, %{{.*}}, %[[HIGH]] : f32
// CHECK-NEXT:        %[[REST:.*]] = arith.mulf %[[X]], %[[E0]] : f32
// CHECK-NEXT:        %[[Q:.*]] = math.fma %[[X]], %[[R0]], %[[REST]] : f32
// CHECK-NEXT:        math.roundeven %[[Q]] : f32
// CHECK:             arith.addi %{{.*}}, %[[Z0]] : i32
// CHECK-NEXT:        arith.trunci %{{.*}} overflow<nuw> : i32 to i8
// CHECK:         arith.constant dense<[3.000000e-02, 1.100000e+01, {{.*}}]> : tensor<4xf32>
// CHECK:         arith.constant dense<120> : tensor<1xi32>
func.func @scales(%x: tensor<64xi8>) -> tensor<64xi8> {
  %0 = "rtask.operator"() ({
    %scale = arith.constant dense<0.02> : tensor<f32>
    %zero = arith.constant dense<130> : tensor<i8>
    %f = tensor.empty() : tensor<64xf32>
    %1 = linalg.generic {indexing_maps = [#id, #one, #one, #id], iterator_types = ["parallel"]}
        ins(%x, %scale, %zero : tensor<64xi8>, tensor<f32>, tensor<i8>) outs(%f : tensor<64xf32>) {
    ^bb0(%in: i8, %s: f32, %z: i8, %out: f32):
      %a = arith.extui %in : i8 to i32
      %b = arith.extui %z : i8 to i32
      %c = arith.subi %a, %b : i32
      %d = arith.sitofp %c : i32 to f32
      %e = arith.mulf %d, %s : f32
      linalg.yield %e : f32
    } -> tensor<64xf32>
    %q = tensor.empty() : tensor<64xi8>
    %2 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
        ins(%1 : tensor<64xf32>) outs(%q : tensor<64xi8>) {
    ^bb0(%in: f32, %out: i8):
      %low = arith.constant -0.5 : f32
      %high = arith.constant 10.0 : f32
      %step = arith.constant 0.1 : f32
      %zero8 = arith.constant 130 : i32
      %a = arith.cmpf ogt, %in, %low : f32
      %b = arith.select %a, %in, %low : f32
      %c = arith.cmpf olt, %b, %high : f32
      %d = arith.select %c, %b, %high : f32
      %e = arith.divf %d, %step : f32
      %g = math.roundeven %e : f32
      %h = arith.fptosi %g : f32 to i32
      %i = arith.addi %h, %zero8 : i32
      %j = arith.trunci %i : i32 to i8
      linalg.yield %j : i8
    } -> tensor<64xi8>
    "rtask.yield"(%2) : (tensor<64xi8>) -> ()
  }) {kind = "elementwise", sym_name = "first"} : () -> tensor<64xi8>
  %3 = "rtask.operator"() ({
    %scale = arith.constant dense<0.03> : tensor<f32>
    %zero = arith.constant dense<120> : tensor<i8>
    %f = tensor.empty() : tensor<64xf32>
    %1 = linalg.generic {indexing_maps = [#id, #one, #one, #id], iterator_types = ["parallel"]}
        ins(%0, %scale, %zero : tensor<64xi8>, tensor<f32>, tensor<i8>) outs(%f : tensor<64xf32>) {
    ^bb0(%in: i8, %s: f32, %z: i8, %out: f32):
      %a = arith.extui %in : i8 to i32
      %b = arith.extui %z : i8 to i32
      %c = arith.subi %a, %b : i32
      %d = arith.sitofp %c : i32 to f32
      %e = arith.mulf %d, %s : f32
      linalg.yield %e : f32
    } -> tensor<64xf32>
    %q = tensor.empty() : tensor<64xi8>
    %2 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
        ins(%1 : tensor<64xf32>) outs(%q : tensor<64xi8>) {
    ^bb0(%in: f32, %out: i8):
      %low = arith.constant -0.5 : f32
      %high = arith.constant 11.0 : f32
      %step = arith.constant 0.11 : f32
      %zero8 = arith.constant 120 : i32
      %a = arith.cmpf ogt, %in, %low : f32
      %b = arith.select %a, %in, %low : f32
      %c = arith.cmpf olt, %b, %high : f32
      %d = arith.select %c, %b, %high : f32
      %e = arith.divf %d, %step : f32
      %g = math.roundeven %e : f32
      %h = arith.fptosi %g : f32 to i32
      %i = arith.addi %h, %zero8 : i32
      %j = arith.trunci %i : i32 to i8
      linalg.yield %j : i8
    } -> tensor<64xi8>
    "rtask.yield"(%2) : (tensor<64xi8>) -> ()
  }) {kind = "elementwise", sym_name = "second"} : () -> tensor<64xi8>
  return %3 : tensor<64xi8>
}
