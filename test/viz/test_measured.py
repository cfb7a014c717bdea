"""Files of measured times: read completely, or refused with a reason."""

import json

import pytest

from rcompiler.errors import ArtifactError
from rcompiler.viz.measured import measured_text, read_measured, usual

TASKS = {
    "operator": ["o2", "o0", "o1", "o3"],
    "first": [0, 0, 0, 0],
    "eu": [1, 0, 0, 0],
    "start_ns": [1700, 600.5, 1600.0, 4800.0],
    "end_ns": [4700.0, 1600.0, 3600.0, 5900.0],
}


def test_rows_find_their_tasks_in_any_order(view, tmp_path):
    file = tmp_path / "times.json"
    file.write_text(measured_text(TASKS))
    found = read_measured(file, view.timeline.spans)
    assert (found.eus, found.eu) == (2, (0, 0, 1, 0))
    assert found.start == (600.5, 1600.0, 1700.0, 4800.0)
    assert found.makespan_ns == 5900.0


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"operator": ["o2", "o0", "o1", "other"]},
            "another schedule.*not operator o3 from rTask 0 on",
        ),
        ({name: column[:3] for name, column in TASKS.items()}, "tells of 3 runs where this has 4"),
        ({name: [*column, column[0]] for name, column in TASKS.items()}, "tells of 5 runs"),
        ({"start_ns": [1, 2, 3]}, "no measured times"),
        ({"start_ns": [5000, 600.5, 1600.0, 4800.0]}, "no measured times"),
        ({"end_ns": [4700.0, 1600.0, 3600.0, float("inf")]}, "no measured times"),
        ({"start_ns": [float("nan"), 600.5, 1600.0, 4800.0]}, "no measured times"),
        ({"eu": [1, 0, 0, -1]}, "no measured times"),
        ({"eu": [1, 0, 0, 1 << 40]}, "no measured times"),
        ({"eu": [1, 0, 0, True]}, "no measured times"),
        ({"first": [[0], 0, 0, 0]}, "no measured times"),
        ({"operator": [0, 1, 2, 3]}, "no measured times"),
    ],
)
def test_other_files_are_refused(view, tmp_path, changed, message):
    file = tmp_path / "times.json"
    file.write_text(measured_text({**TASKS, **changed}))
    with pytest.raises(ArtifactError, match=message):
        read_measured(file, view.timeline.spans)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "\xff", json.dumps({"format": "other"}), "[" * 100_000]
)
def test_what_is_no_such_file_is_refused(view, tmp_path, text):
    file = tmp_path / "times.json"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(ArtifactError, match="write them with rc-run MODEL --profile=FILE"):
        read_measured(file, view.timeline.spans)


def test_a_missing_file_is_named(view, tmp_path):
    with pytest.raises(ArtifactError, match="none.json: it cannot be read"):
        read_measured(tmp_path / "none.json", view.timeline.spans)


def launch(eus, *times):
    names = [f"o{n}" for n in range(len(times))]
    starts, ends = ([pair[n] for pair in times] for n in range(2))
    columns = ("operator", "first", "eu", "start_ns", "end_ns")
    return dict(zip(columns, (names, [0] * len(times), eus, starts, ends), strict=True))


def test_launches_are_told_as_medians_of_each_run():
    """In each of three launches another run stalled: none of it is left."""
    stalled = [
        launch([0, 1], (0, 900), (900, 910)),
        launch([0, 1], (0, 10), (10, 700)),
        launch([0, 1], (500, 512), (512, 524)),
        launch([0, 1], (0, 11), (12, 21)),
        launch([0, 1], (1, 12), (12, 22)),
    ]
    assert usual(stalled) == launch([0, 1], (0, 12), (12, 524))
    assert usual(stalled[3:]) == launch([0, 1], (0.5, 11.5), (12.0, 21.5))


def test_of_launches_on_other_threads_one_of_median_length_is_told():
    launches = [
        launch([eu, 0], (0, end), (end, end + 5)) for eu, end in ((0, 90), (1, 10), (1, 20))
    ]
    assert usual(launches) == launches[2]
