"""Policies that do not come with the compiler: the example of docs/policies.md, and faulty ones."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

import rcompiler
from rcompiler.errors import CompilerError, PipelineError, ScheduleError
from rcompiler.passes._pipeline_text import expand
from rcompiler.rammer.validate import validate
from rcompiler.tools import models
from rcompiler.tools._plans import rebuild

DOCS = Path(__file__).parents[2] / "docs" / "policies.md"
EXAMPLE = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.S)[0]
WAIT = "                launch.wait(tasks, launch.producers(tasks))\n"
EUS = 3


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes a module that can be imported, until the test ends."""
    monkeypatch.syspath_prepend(str(tmp_path))
    written = []

    def make(name, text):
        (tmp_path / f"{name}.py").write_text(text)
        written.append(name)

    yield make
    for name in written:
        sys.modules.pop(name, None)


def network():
    return models.build("mlp", batch=96, layers=(64, 96, 32))


def compiled(policy, **options):
    return rcompiler.compile_onnx(
        network(), device="default", eus=EUS, policy=policy, cache=False, **options
    )


def test_the_example_is_short():
    assert len(EXAMPLE.splitlines()) <= 20


@pytest.mark.parametrize("kernels", ["auto", "fast", "efficient"])
def test_the_example_gives_the_bits_of_the_papers_policy(write, kernels):
    write("even", EXAMPLE)
    model, papers = compiled("even:even", kernels=kernels), compiled("rammer")
    x = np.random.default_rng(0).standard_normal((96, 64), dtype=np.float32)
    for own, theirs in zip(model(x), papers(x), strict=True):
        np.testing.assert_array_equal(own, theirs)
    programs, used = rebuild(model.artifact)
    certificate = validate(programs, kernels=used)
    assert certificate.eus == EUS
    assert certificate.waits > 0 or kernels == "efficient"  # one rTask each, on one EU
    assert model.artifact.provenance["policy"] == "even:even"
    assert "note: scheduled by policy 'even:even'" in str(model.report())


def test_a_function_is_its_text(write):
    write("even", EXAMPLE)
    import even

    assert compiled(even.even).stage("vdevice") == compiled("even:even").stage("vdevice")
    [scheduling] = expand("rammer-schedule{policy=even:even}")
    assert expand(str(scheduling)) == [scheduling]


def test_a_policy_that_forgets_to_wait_is_told_of_the_race(write):
    assert EXAMPLE.count(WAIT) == 1
    write("hasty", EXAMPLE.replace(WAIT, ""))
    with pytest.raises(ScheduleError) as found:
        compiled("hasty:even")
    assert found.value.rule == "race"
    assert re.search(r"operator fc2_Gemm .* reads fc1_Gemm and may run before", str(found.value))
    assert "the signal and wait from the write to the read are missing" in str(found.value)


def test_an_address_space_limit_finds_the_policy_too(write):
    """The model is compiled in a process of its own, which imports what this one can."""
    write("even", EXAMPLE)
    own = rcompiler.driver.isolate.compile_onnx(
        network(), device="default", eus=EUS, policy="even:even", cache=False
    )
    assert own.stage("vdevice") == compiled("even:even").stage("vdevice")


FAULTS = {
    "twice": ("return [launch", "return 2 * [launch", "two programs of one name"),
    "nothing": ("return [launch", "return None and [launch", "returned None"),
    "raises": ("launch = Launch", "eus = 1 // 0 + len", "the policy failed: ZeroDivisionError"),
    "left out": ("range(eus)", "range(1)", "rTask|task"),
    "no such EU": ("kernel, eu, first", "kernel, eu + 9, first", "no EU 9, the launch has 3"),
    "no tasks": ("end - first)", "0)", "no 0 rTasks from 0 on"),
    "beyond": ("end - first)", "end + 999)", "append 1 or more"),
    "too many EUs": ("Launch(graph, eus)", "Launch(graph, eus + 1)", "device has 3"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_policy_is_refused(write, fault):
    right, wrong, reason = FAULTS[fault]
    write("faulty", EXAMPLE.replace(right, wrong))
    with pytest.raises(ScheduleError, match=reason):
        compiled("faulty:even")


def test_what_is_no_policy_is_refused_by_name(write):
    write("even", EXAMPLE + "\nlater = 3\n")
    for given, reason in {
        "even:odd": "policy 'even:odd' cannot be imported: AttributeError",
        "nowhere:even": "policy 'nowhere:even' cannot be imported: ModuleNotFoundError",
        "even:later": "policy 'even:later' is no function: 3",
        "even": "policy 'even' is none of base, wave, bsp",
    }.items():
        with pytest.raises(CompilerError, match=re.escape(reason)):
            compiled(given)
        with pytest.raises(PipelineError, match=re.escape(f"option 'policy': {reason}")):
            expand(f"rammer-schedule{{policy={given}}}")
    with pytest.raises(CompilerError, match="give a name, module:function, or a function"):
        compiled(3)
    with pytest.raises(CompilerError, match="<lambda>' cannot be imported"):
        compiled(lambda *_: [])
