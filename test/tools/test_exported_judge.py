"""tools/bench/measurements/_exported_judge.py: what is said of exported networks."""

from measurements import _exported_judge


def test_reasons_name_no_path_of_a_machine():
    said = "[ONNXRuntimeError] : 1 : FAIL : Status Message: /build/src/reshape.h:91 no fit 'a/b:1 '"
    assert _exported_judge._brief(f"{said}\nmore") == "no fit 'a/b:1 '"
