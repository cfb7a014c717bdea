"""Names of instruction sets, and of the targets that are CPUs."""

import itertools

import pytest

from rcompiler.codegen.cpu import Target
from rcompiler.device.cpu import cpu_device
from rcompiler.device.host_flags import BESIDE, CPU_FLAGS, EXTRA, LEVEL_FLAGS, LEVELS, TILES, V4
from rcompiler.device.instruction_set import InstructionSet, all_names
from rcompiler.device.target import canonical, find_device, is_host, kind_name, name_of
from rcompiler.errors import DeviceError

EVERY = [
    "+".join((level, *beside))
    for level, known in BESIDE.items()
    for count in range(len(known) + 1)
    for beside in itertools.combinations(known, count)
]


def test_there_are_so_many():
    assert len(EVERY) == 16 + 2 + 1
    assert {"v4+vnni", "v4+vnni+amx", "v3+vnni", "v4+bf16", "v4+fp16", "x86-64"} <= {*EVERY}


@pytest.mark.parametrize("name", EVERY)
def test_names_round_trip(name):
    found = InstructionSet.named(name)
    assert found.name == name
    assert InstructionSet.of(found.level, found.features) == found
    # a device, and what a schedule says of it
    target = f"cpu:{name}"
    device = find_device(target)
    assert device.features == found.features and device.level_name == found.level
    assert kind_name(device) == kind_name(cpu_device(name)) == target
    assert is_host(target) and name_of(target, device) == canonical(target) == target
    # code
    code = Target.of(found)
    assert Target.named(code.name) == code
    assert set(code.required) == found.flags


@pytest.mark.parametrize("beside", [*itertools.permutations(("vnni", "fp16", "amx"))])
def test_features_have_one_order(beside):
    target = "cpu:" + "+".join(("v4", *beside))
    assert canonical(target) == name_of(target, find_device(target)) == "cpu:v4+vnni+fp16+amx"
    assert InstructionSet.named(f"v4+{'+'.join(beside)}+vnni").name == "v4+vnni+fp16+amx"


def test_what_the_names_stand_for():
    tiles = InstructionSet.named("v4+vnni+amx")
    assert tiles.features == V4 | {"avx512vnni"} | TILES
    assert tiles.flags == LEVEL_FLAGS["v4"] | {"avx512_vnni", "amx_tile", "amx_int8", "amx_bf16"}
    assert Target.of(tiles).name == "x86-64-v4+vnni+amx"
    assert Target.of(tiles).cpu == "x86-64-v4"
    features = "+amx-bf16,+amx-int8,+amx-tile,+avx512vnni,+fast-dpwssd"
    assert Target.of(tiles).features == features
    # the dot products of a v3 are other instructions than those of a v4
    assert InstructionSet.named("v3+vnni").added == {"avxvnni"}
    assert cpu_device("v3+vnni").dots == cpu_device("v4+vnni").dots == {"i8"}
    assert cpu_device("v4+bf16").dots == {"bf16"}
    assert cpu_device("v4+amx").tile_elements == {"i8", "bf16"}
    assert not cpu_device("v4+vnni").tile_elements


def test_what_a_level_has_no_name_for_is_left_out():
    assert InstructionSet.of("v4", V4 | {"avxvnni", "amx-tile"}).name == "v4"
    assert InstructionSet.of("v3", LEVELS["v3"] | {"avx512vnni"}).name == "v3"


def test_every_feature_has_a_flag():
    assert set(CPU_FLAGS) >= EXTRA and set(BESIDE) == set(LEVELS)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("cpu:v9", "unknown target 'cpu:v9': .*'v9' is unknown; it is one of: v4, v3, x86-64"),
        ("cpu:v4+", "v4 has no feature '' beside it; there are: [+]vnni, [+]bf16, [+]fp16, [+]amx"),
        ("cpu:v3+amx", "v3 has no feature 'amx' beside it; there are: [+]vnni$"),
        ("cpu:x86-64+vnni", "x86-64 has no feature 'vnni' beside it; there are: none$"),
        ("cpu:v4+avx512_vnni", "no feature 'avx512_vnni'"),
        ("cpu:V4", "'V4' is unknown"),
    ],
)
def test_unknown_names(target, message):
    with pytest.raises(DeviceError, match=message):
        find_device(target)
    assert canonical(target) == target  # which whoever needs the device refuses


def test_messages_list_the_names():
    assert all_names()[:6] == ["v4", "v4+vnni", "v4+bf16", "v4+fp16", "v4+amx", "v3"]
    with pytest.raises(DeviceError, match="cpu:v4[+]amx, cpu:v3, cpu:v3[+]vnni, cpu:x86-64"):
        find_device("cpuv4")
    with pytest.raises(DeviceError, match="no code generation target 'sm_80'"):
        Target.of(InstructionSet("sm_80"))
    with pytest.raises(DeviceError, match="has no feature 'mmx'"):
        Target.named("x86-64-v4+mmx")
