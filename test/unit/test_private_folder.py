"""Folders whose content is run: only those that nobody else can write to are used."""

import os
import shutil
import stat
import warnings

import pytest

from rcompiler.codegen.cpu import CacheWarning, ObjectCache
from rcompiler.device import store
from rcompiler.device.cpu import detect_cpu
from rcompiler.errors import CacheError
from rcompiler.profiler.index import IndexWarning, ProfileIndex
from rcompiler.support.private_folder import PrivateFolder

KEY, OTHER = "a" * 64, "b" * 64


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache"


def test_it_is_made_for_this_user_alone(folder):
    with PrivateFolder(folder) as own:
        own.write("name", b"data")
        assert own.read("name") == b"data"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "name").stat().st_mode) == 0o600
    assert os.listdir(folder) == ["name"]


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o1777])
def test_a_folder_that_others_may_write_to_is_refused(folder, mode):
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(CacheError, match="other users may write to it.*chmod 700"):
        PrivateFolder(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders away")
def test_a_folder_of_another_user_is_refused(folder):
    folder.mkdir(mode=0o700)
    shutil.chown(folder, 12345)
    with pytest.raises(CacheError, match="belongs to another user .number 12345.*RC_CACHE_DIR"):
        PrivateFolder(folder)
    shutil.chown(folder, 0)
    (folder / "name").write_bytes(b"")
    shutil.chown(folder / "name", 12345)
    with PrivateFolder(folder) as own, pytest.raises(CacheError, match="no plain file of this"):
        own.read("name")


def test_fifos_links_and_folders_are_no_entries(folder, tmp_path):
    (tmp_path / "elsewhere").write_bytes(b"code")
    with PrivateFolder(folder) as own:
        os.mkfifo(folder / "fifo")
        (folder / "link").symlink_to(tmp_path / "elsewhere")
        (folder / "folder").mkdir()
        for name in ("fifo", "folder"):
            with pytest.raises(CacheError, match=f"entry {name} is no plain file"):
                own.read(name)
        with pytest.raises(OSError):
            own.read("link")
        for name in ("fifo", "folder", "link"):
            with pytest.raises(CacheError, match=f"entry {name} is no plain file"):
                own.checked(name)


def test_objects_of_a_folder_that_others_may_write_to_are_not_used(folder):
    ObjectCache(folder).put(KEY, b"good")
    assert ObjectCache(folder).get(KEY) == b"good"
    folder.chmod(0o777)
    cache = ObjectCache(folder)
    with pytest.warns(CacheWarning, match="other users may write to it.*chmod 700"):
        assert cache.get(KEY) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.put(KEY, b"more")  # it was said once
    assert len(os.listdir(folder)) == 1


def test_an_object_is_bound_to_its_key(folder):
    cache = ObjectCache(folder)
    cache.put(KEY, b"of a")
    shutil.copy(folder / f"{KEY}.o", folder / f"{OTHER}.o")
    with pytest.warns(CacheWarning, match="is damaged and is built again"):
        assert cache.get(OTHER) is None


def test_a_fifo_in_the_place_of_an_object_is_not_waited_for(folder):
    ObjectCache(folder).put(OTHER, b"code")
    os.mkfifo(folder / f"{KEY}.o")
    with pytest.warns(CacheWarning, match="no plain file of this user; remove it"):
        assert ObjectCache(folder).get(KEY) is None


def test_records_of_a_folder_that_others_may_write_to_are_not_used(folder):
    device = detect_cpu()
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(CacheError, match="other users may write"):
        store.recorded(device, folder, lambda base: base)
    with pytest.raises(CacheError, match="other users may write"):
        store.find_record(device, folder)


def test_a_profile_index_that_others_may_write_to_is_not_used(folder):
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.warns(IndexWarning, match="other users may write to it.*chmod 700"):
        ProfileIndex(folder / "index.sqlite").close()
    assert os.listdir(folder) == []
    folder.chmod(0o700)
    os.mkfifo(folder / "index.sqlite")
    with pytest.warns(IndexWarning, match="no plain file of this user"):
        ProfileIndex(folder / "index.sqlite").close()
