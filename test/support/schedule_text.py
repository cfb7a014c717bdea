"""Editing the text of a schedule (S4) as a person would."""

import re
from collections.abc import Sequence

_RUN = re.compile(r'"vdevice\.run"\(\) \{[^\n]*operator = "(?P<operator>[^"]+)"[^\n]*\n')
_LISTS = re.compile(r'( *"vdevice\.eu"\(\) \(\{\n.*?\}\) \{first = \d+ : i64, last = \d+ : i64\} '
                    r': \(\) -> \(\)\n)+', re.S)  # fmt: skip


def runs(text: str) -> dict[str, str]:
    """Operator -> one run of all its rTasks, as a line without its end."""
    found = {}
    for match in _RUN.finditer(text):
        kernel = re.search(r"kernel = @(\w+)", match[0])
        assert kernel
        tasks = re.search(rf'sym_name = "{kernel[1]}", tasks = (\d+)', text)
        assert tasks
        found[match["operator"]] = run_of(match[0].rstrip(), 0, int(tasks[1]))
    return found


def run_of(line: str, first: int, count: int) -> str:
    """The same run with other rTasks."""
    line = re.sub(r"\bcount = \d+", f"count = {count}", line)
    line = re.sub(r"\beu_step = \d+", "eu_step = 0", line)
    return re.sub(r"\bfirst = \d+", f"first = {first}", line)


def with_lists(text: str, lists: Sequence[Sequence[str]], events: Sequence[str] = ()) -> str:
    """The schedule with other lists, one for each EU, and more events."""
    declared = [f'    "vdevice.event"() {{sym_name = "{event}"}} : () -> ()\n' for event in events]
    bodies = [
        '    "vdevice.eu"() ({\n'
        + ("".join(f"      {line}\n" for line in steps) or "    ^bb0:\n")
        + f"    }}) {{first = {eu} : i64, last = {eu} : i64}} : () -> ()\n"
        for eu, steps in enumerate(lists)
    ]
    return _LISTS.sub("".join([*declared, *bodies]).replace("\\", r"\\"), text, count=1)


def wait(event: str, count: int = 1) -> str:
    """A wait for `count` signals."""
    return f'"vdevice.wait"() {{count = {count} : i64, event = @{event}}} : () -> ()'


def signal(event: str) -> str:
    """A signal."""
    return f'"vdevice.signal"() {{event = @{event}}} : () -> ()'
