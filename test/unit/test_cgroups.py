"""device/cgroups.py: the CPUs that a process may use, over file trees like those of containers."""

import pytest

from rcompiler.device import cgroups
from rcompiler.device.cgroups import allowed, parse_cpus, parse_groups, parse_mounts

V2 = "30 24 0:26 {root} {place} rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = "32 31 0:29 {root} {place} rw,relatime - cgroup cgroup rw,{controllers}\n"
FOUR = {0, 1, 2, 3}


def tree(root, groups, mounts, files):
    """A file system of one process: its groups, what is mounted, and files by path."""
    texts = {"proc/self/cgroup": groups, "proc/self/mountinfo": mounts, **files}
    for path, text in texts.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


def unified(root, path, files, mounted="/"):
    place = "/sys/fs/cgroup"
    files = {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    return tree(root, f"0::{path}\n", V2.format(root=mounted, place=place), files)


@pytest.mark.parametrize(
    ("limit", "cpus"),
    [
        ("max 100000", 4),
        ("100000 100000", 1),
        ("150000 100000", 2),  # rounded up: the second CPU is of use for half of the time
        ("1000 100000", 1),
        ("900000 100000", 4),
        ("", 4),
        ("nonsense", 4),
        ("100000", 4),
        ("100000 0", 4),
    ],
)
def test_a_quota_of_the_unified_hierarchy(tmp_path, limit, cpus):
    assert allowed(FOUR, unified(tmp_path, "/box", {"box/cpu.max": limit})) == cpus


@pytest.mark.parametrize("tight", ["a", "a/b", "a/b/c"])
def test_of_nested_groups_the_least_holds(tmp_path, tight):
    files = {f"{path}/cpu.max": "300000 100000" for path in ("a", "a/b", "a/b/c")}
    files |= {f"{tight}/cpu.max": "200000 100000"}
    assert allowed(FOUR, unified(tmp_path, "/a/b/c", files)) == 2


def test_groups_beside_that_of_the_process_limit_nothing(tmp_path):
    files = {"a/cpu.max": "max 100000", "b/cpu.max": "100000 100000", "a/c/cpu.max": "1 100000"}
    assert allowed(FOUR, unified(tmp_path, "/a", files)) == 4


@pytest.mark.parametrize("path", ["/", "/docker/abc", "/../other"])
def test_a_container_sees_its_own_group_at_the_mount_point(tmp_path, path):
    """With a namespace of its own the path is "/"; without one it is that of the host."""
    mounted = "/docker/abc" if path == "/docker/abc" else "/"
    root = unified(tmp_path, path, {"cpu.max": "100000 100000"}, mounted)
    assert allowed(FOUR, root) == 1


def test_a_mount_of_a_group_shows_the_groups_below(tmp_path):
    root = unified(tmp_path, "/docker/abc/job", {"job/cpu.max": "200000 100000"}, "/docker/abc")
    assert allowed(FOUR, root) == 2


@pytest.mark.parametrize(
    ("quota", "cpus"), [("-1", 4), ("100000", 1), ("50000", 1), ("250000", 3), ("0", 4)]
)
def test_a_quota_of_version_1(tmp_path, quota, cpus):
    mounts = V1.format(root="/", place="/sys/fs/cgroup/cpu", controllers="cpu,cpuacct")
    files = {
        "sys/fs/cgroup/cpu/box/cpu.cfs_quota_us": quota,
        "sys/fs/cgroup/cpu/box/cpu.cfs_period_us": "100000",
    }
    root = tree(tmp_path, "3:cpu,cpuacct:/box\n2:memory:/other\n0::/\n", mounts, files)
    assert allowed(FOUR, root) == cpus


@pytest.mark.parametrize(
    ("name", "text", "cpus"),
    [
        ("cpuset.cpus.effective", "1-2", 2),
        ("cpuset.cpus.effective", "", 4),
        ("cpuset.cpus.effective", "0,2-3,9", 3),
        ("cpuset.cpus.effective", "17", 4),  # numbers of another machine
    ],
)
def test_a_set_of_cpus(tmp_path, name, text, cpus):
    assert allowed(FOUR, unified(tmp_path, "/box", {f"box/{name}": text})) == cpus


@pytest.mark.parametrize("name", ["cpuset.effective_cpus", "cpuset.cpus"])
def test_a_set_of_cpus_of_version_1(tmp_path, name):
    """Beside a quota in another hierarchy: the lesser of both holds."""
    mounts = V1.format(root="/", place="/cg/cpu", controllers="cpu")
    mounts += V1.format(root="/", place="/cg/the\\040set", controllers="cpuset")
    files = {
        f"cg/the set/box/{name}": "1",
        "cg/cpu/cpu.cfs_quota_us": "200000",
        "cg/cpu/cpu.cfs_period_us": "100000",
    }
    root = tree(tmp_path, "5:cpuset:/box\n4:cpu:/\n", mounts, files)
    assert allowed(FOUR, root) == 1


def test_without_files_the_affinity_counts(tmp_path):
    assert allowed({5}, tmp_path) == 1
    assert allowed(FOUR, tmp_path) == 4
    assert allowed(FOUR, tree(tmp_path, "nonsense\n1:cpu\n", "a b - cgroup2\n\nx\n", {})) == 4


def test_there_is_always_one_cpu(tmp_path):
    assert allowed(set(), tmp_path) == 1


def test_this_process_has_some():
    assert cgroups.usable_cpus() >= 1


def test_parts():
    assert parse_cpus("0-3,8\n") == {0, 1, 2, 3, 8}
    assert parse_cpus("a-b") == parse_cpus("") == set()
    assert parse_groups("0::/a:b\n") == [(None, "/a:b")]
    assert [m.place for m in parse_mounts(V2.format(root="/", place="/x\\040y"))] == ["/x y"]


def test_a_change_of_what_is_mounted_is_seen(tmp_path):
    """The same text is not parsed again; another one is."""
    unified(tmp_path, "/a", {"a/cpu.max": "200000 100000"})
    assert [allowed(FOUR, tmp_path) for _ in range(2)] == [2, 2]
    (tmp_path / "sys/fs/cgroup/a/cpu.max").write_text("100000 100000")
    assert allowed(FOUR, tmp_path) == 1
    (tmp_path / "proc/self/mountinfo").write_text("")
    assert allowed(FOUR, tmp_path) == 4
