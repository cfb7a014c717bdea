"""Texts of stages: the same from another process, whatever happens to it; and what is not valid."""

import pytest
from torch_mlir import ir

from rcompiler import dialects
from rcompiler.driver import stage_texts
from rcompiler.driver.stage_texts import StageTexts
from rcompiler.errors import CompilerError

VALID = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %w = arith.constant dense_resource<w_0> : tensor<4xf32>
  %e = tensor.empty() : tensor<4xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
                       iterator_types = ["parallel"]}
      ins(%w : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  } -> tensor<4xf32>
  return %y : tensor<4xf32>
}
"""


@pytest.fixture
def parsed():
    """A function that parses a module; its context lives as long as the test."""
    with dialects.load(ir.Context()), ir.Location.unknown():
        yield ir.Module.parse


@pytest.fixture(params=["here", "another process", "dead process", "no process"])
def where(request, monkeypatch):
    """Who makes the texts of modules of any length."""
    if request.param == "here":
        return

    def ask(bytecode):
        if request.param == "no process":
            raise OSError("no more processes")
        with stage_texts._WORKERS.borrow() as worker:
            if request.param == "dead process":
                worker._process.kill()
                worker._process.wait()
            return worker.ask(bytecode)

    monkeypatch.setattr(stage_texts, "_WORTH_A_PROCESS", 0)
    monkeypatch.setattr(stage_texts, "can_help", lambda: True)
    monkeypatch.setattr(stage_texts, "_ask", ask)


def broken(module):
    """The function returns a tensor of another type than it says."""
    function = module.body.operations[0]
    type_ = ir.TypeAttr.parse("(tensor<4xf32>) -> tensor<8xf32>")
    function.operation.attributes["function_type"] = type_
    return module


def test_a_text_is_that_of_the_stage_when_it_was_kept(where, parsed):
    module = parsed(VALID)
    expected = module.operation.get_asm()
    texts = StageTexts()
    texts.keep("first", module)
    texts.add("note", "text")
    function = module.body.operations[0]
    function.operation.attributes["later"] = ir.UnitAttr.get()
    texts.keep("second", module)
    found = texts.all()
    assert list(found) == ["first", "note", "second"]
    assert found["first"] == expected != found["second"] == module.operation.get_asm()
    assert texts.all() == found


def test_a_stage_that_is_not_valid_is_named(where, parsed):
    module, texts = broken(parsed(VALID)), StageTexts()
    with pytest.raises(CompilerError, match="(?s)stage .rtask. is not valid: .*tensor<8xf32>"):
        texts.keep("rtask", module)
        texts.all()


def test_what_goes_wrong_later_is_the_fault_of_the_stage(monkeypatch, parsed):
    monkeypatch.setattr(stage_texts, "_WORTH_A_PROCESS", 0)
    texts = StageTexts()
    with pytest.raises(CompilerError, match="stage 'rtask' is not valid"), texts.blamed():
        texts.keep("rtask", broken(parsed(VALID)))
        raise KeyError("in some pass")
    with pytest.raises(CompilerError, match="of its own"), texts.blamed():
        raise CompilerError("of its own")


def test_what_goes_wrong_after_valid_stages_stays(parsed):
    texts = StageTexts()
    with pytest.raises(KeyError), texts.blamed():
        texts.keep("rtask", parsed(VALID))
        raise KeyError("in some pass")
