"""Files that are held to a digest or a signature."""

import hashlib

import numpy as np
import pytest

import rcompiler
from rcompiler.errors import ArtifactError
from rcompiler.tools import models

crypto = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
from cryptography.hazmat.primitives import serialization  # noqa: E402

from rcompiler.driver.signing import sign  # noqa: E402
from rcompiler.tools import sign as tool  # noqa: E402


@pytest.fixture(scope="module")
def signed(tmp_path_factory):
    """A folder with m.rcx, its signature, and the keys of two people."""
    folder = tmp_path_factory.mktemp("signed")
    for name in ("ours", "theirs"):
        key = crypto.Ed25519PrivateKey.generate()
        (folder / f"{name}.pem").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        (folder / f"{name}.pub").write_bytes(
            key.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )
    model = rcompiler.compile_onnx(models.build("two_branch", rows=64, width=32), eus=1)
    model.save(folder / "m.rcx")
    assert tool.main([str(folder / "m.rcx"), f"--key={folder / 'ours.pem'}"]) == 0
    return folder


def test_the_file_that_was_signed_is_loaded(signed):
    path = signed / "m.rcx"
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    x = np.ones((64, 32), np.float32)
    expected = rcompiler.load(path)(x)[0]
    for pin in ({"sha256": digest}, {"sha256": digest.upper()}, {"key": signed / "ours.pub"},
                {"key": (signed / "ours.pub").read_bytes(), "sha256": digest}):  # fmt: skip
        assert np.array_equal(rcompiler.load(path, **pin)(x)[0], expected)


def test_another_file_or_another_key_is_refused(signed, tmp_path):
    path = signed / "m.rcx"
    with pytest.raises(ArtifactError, match="m.rcx: its sha256 is .*do not run this file"):
        rcompiler.load(path, sha256="0" * 64)
    with pytest.raises(ArtifactError, match="its sha256 is"):
        rcompiler.load(path, sha256="0" * 64, key=signed / "ours.pub")
    with pytest.raises(ArtifactError, match="not what was signed with this key"):
        rcompiler.load(path, key=signed / "theirs.pub")
    copy = tmp_path / "m.rcx"
    copy.write_bytes(path.read_bytes())
    with pytest.raises(ArtifactError, match="m.rcx.sig: it cannot be read .No such file"):
        rcompiler.load(copy, key=signed / "ours.pub")
    other = rcompiler.compile_onnx(models.build("two_branch", rows=32, width=32), eus=1)
    other.save(copy)
    (tmp_path / "m.rcx.sig").write_bytes((signed / "m.rcx.sig").read_bytes())
    assert rcompiler.load(copy)
    with pytest.raises(ArtifactError, match="not what was signed with this key"):
        rcompiler.load(copy, key=signed / "ours.pub")
    (tmp_path / "m.rcx.sig").write_bytes(b"short")
    with pytest.raises(ArtifactError, match="not what was signed with this key"):
        rcompiler.load(copy, key=signed / "ours.pub")


@pytest.mark.parametrize("key", [b"", b"-----BEGIN PUBLIC KEY-----\n", "m.rcx", "ours.pem"])
def test_what_is_no_key_is_refused(signed, key):
    given = key if isinstance(key, bytes) else signed / key
    with pytest.raises(ArtifactError, match="no (public Ed25519 key|key and no signature)"):
        rcompiler.load(signed / "m.rcx", key=given)


def test_only_private_keys_sign(signed):
    with pytest.raises(ArtifactError, match="no private Ed25519 key"):
        sign(signed / "m.rcx", signed / "ours.pub")


def test_a_digest_that_is_none(signed):
    for digest in ("12", "x" * 64, 5):
        with pytest.raises(ArtifactError, match="give the 64 hex digits"):
            rcompiler.load(signed / "m.rcx", sha256=digest)


def test_long_arguments_make_short_messages(signed):
    for given in (b"x" * 20_000_000, ["x"] * 1_000_000):
        with pytest.raises(ArtifactError) as caught:
            rcompiler.load(given)
        assert len(str(caught.value)) < 1000
    with pytest.raises(ArtifactError) as caught:
        rcompiler.load("x" * 100_000)
    assert len(str(caught.value)) < 1000
