"""What the documents show runs, and what they link to is there."""

import pytest
from documents import DOCUMENTS, ROOT, BadDocument, anchors, bad_links, blocks, run

from rcompiler.device.cpu import best_level, host_features

NAMES = [str(path.relative_to(ROOT)) for path in DOCUMENTS]


@pytest.mark.parametrize("name", NAMES)
def test_all_blocks_run(name, tmp_path, monkeypatch):
    if name == "docs/lowering.md" and best_level(host_features()) == "x86-64":
        pytest.skip("its texts are those of AVX2")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RC_CACHE_DIR", str(tmp_path / "cache"))
    run(blocks((ROOT / name).read_text(), name), tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_somewhere(name):
    assert bad_links(ROOT / name) == []


def test_the_readme_is_short_and_leads_to_each_document():
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 150
    for path in (ROOT / "docs").glob("*.md"):
        assert f"(docs/{path.name})" in text


def test_pictures_are_small():
    pictures = [*(ROOT / "docs" / "pictures").iterdir()]
    assert pictures and all(p.suffix == ".svg" and p.stat().st_size <= 40_000 for p in pictures)


GOOD = """
```python
x = 2
```

<!-- file: own.py -->
```python
y = x * 2 if "x" in globals() else 0
```

```python
import own
assert (y, own.y) == (4, 0)
```

- in a list:
  ```sh
  printf 'one\\n two\\nthree four\\n' > made.txt
  ```

<!-- from: made.txt -->
```text
one
...
three ...
```

```console
$ cp made.txt copy.txt
nothing of this is run
```

```mlir
module { func.func @main() { return } }
```

<!-- needs: json no_such_package -->
```python
raise RuntimeError("one of the packages is not installed")
```

<!-- needs: json re -->
```python
assert y == 4
```

<!-- not run: there is no such command -->
```sh
no-such-command && touch wrong.txt
```
"""


def test_blocks_run_in_order_in_one_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(blocks(GOOD), tmp_path)
    assert (tmp_path / "copy.txt").exists() and not (tmp_path / "wrong.txt").exists()


@pytest.mark.parametrize(
    "text, message",
    [
        ("```python\nx = 1\n\nassert x == 2\n```", "document:2: AssertionError"),
        ("```python\nx = 1\n```\n```sh\ntrue\n```\n```python\ny\n```", "document:8: NameError"),
        ("```sh\nfalse\ntrue\n```", "document:2: exit status 1"),
        ("```sh\nfalse | true\n```", "document:2: exit status 1"),
        ("```sh\necho $NO_SUCH_VARIABLE\n```", "document:2: exit status"),
        ("```console\n$ false\n$ true\n```", "document:2: exit status 1"),
        ("```mlir\nmodule { func.func @main() { retrun } }\n```", "document:2: exit status"),
        (
            "```sh\necho a b > t\n```\n<!-- from: t -->\n```text\na ... c\n```",
            "does not say there: c",
        ),
        ("```shell\ntrue\n```", "document:2: 'shell' is none of"),
        ("```\ntrue\n```", "document:2: '' is none of"),
        ("<!-- not run -->\n```sh\nfalse\n```", "document:3: 'not run' without a reason"),
        ("<!-- not run: -->\n```sh\nfalse\n```", "document:3: 'not run' without a reason"),
        ("<!-- not ran: slow -->\n```sh\nfalse\n```", "document:3: 'not ran' is none of"),
        ("<!-- not run: slow -->\n\n```sh\nfalse\n```", "document:4: exit status 1"),
        ("```sh\ntrue\n", "document:2: the block does not end"),
    ],
)
def test_what_does_not_hold_is_found(text, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadDocument) as caught:
        run(blocks(text), tmp_path)
    assert message in str(caught.value)


def test_links_that_lead_nowhere_are_found(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "other.md").write_text("# A heading: `x`, _y_\n\n```text\n# none\n```\n")
    good = "[a](docs/other.md#a-heading-x-_y_) [b](#top) [c](https://a.example) `docs/other.md`\n"
    bad = ["`docs/none.md`", "docs/none.md", "docs/other.md#none", "#none", "../outside.md"]
    (tmp_path.parent / "outside.md").touch()
    links = " ".join(x if x.startswith("`") else f"[x]({x})" for x in bad)
    document = tmp_path / "document.md"
    document.write_text(f"# Top\n{good}\n```text\n[x](none.md)\n```\n{links}\n")
    assert bad_links(document, tmp_path) == bad
    assert anchors("# A\n# A\n") == {"a", "a-1"}
