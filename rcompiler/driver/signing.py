"""Signatures of compiled files: Ed25519, by the package `cryptography`, over the sha256 of a file.

A signature lies beside its file, under the same name with `.sig` behind it: 64 bytes. Hashes inside
of a file find damage; only a signature, or a digest from elsewhere, tells who made it.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from rcompiler.errors import ArtifactError, ToolError
from rcompiler.runtime.container import contents, replacing, shown

_SUFFIX = ".sig"
_CONTEXT = b"rcompiler artifact, sha256 "  # what is signed can be taken for nothing else
_MOST = 1 << 16  # bytes of a key or a signature

Key = str | os.PathLike[str] | bytes


def sign(path: Path, key: Key) -> Path:
    """Write the signature of a file; its path.

    key: the private key, PEM, as bytes or in a file.

    Raises:
        ArtifactError: a file cannot be read or written, or the key is none.
        ToolError: `cryptography` is not installed.
    """
    private = _loaded(key, "load_pem_private_key", "Ed25519PrivateKey", "private")
    signature = private.sign(_CONTEXT + bytes.fromhex(_digest(path)))
    signature_file = path.with_name(path.name + _SUFFIX)
    with replacing(signature_file) as file:
        file.write(signature)
    return signature_file


def signed_digest(path: Path, key: Key) -> str:
    """The sha256 (hex) of a file, if it is signed with the private part of a public key.

    key: PEM, as bytes or in a file.

    Raises:
        ArtifactError: there is no signature, it is not of this file and key, or the key is none.
        ToolError: `cryptography` is not installed.
    """
    public = _loaded(key, "load_pem_public_key", "Ed25519PublicKey", "public")
    from cryptography.exceptions import InvalidSignature

    signature_file = path.with_name(path.name + _SUFFIX)
    signature, digest = _small(signature_file), _digest(path)
    try:
        public.verify(signature, _CONTEXT + bytes.fromhex(digest))
    except InvalidSignature:
        raise ArtifactError(
            f"{path}: it is not what was signed with this key; do not run this file"
        ) from None
    return digest


def _digest(path: Path) -> str:
    return hashlib.sha256(contents(path).data).hexdigest()


def _small(path: Path) -> bytes:
    data = contents(path)
    if data.size > _MOST:
        raise ArtifactError(f"{path}: it is no key and no signature; give another file")
    return data.tobytes()


def _loaded(key: Key, function: str, kind: str, word: str) -> Any:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise ToolError(
            "signatures need the package cryptography; pip install cryptography"
        ) from None
    text = key if isinstance(key, bytes) else _small(Path(key))
    arguments = {"password": None} if word == "private" else {}
    try:
        found = getattr(serialization, function)(text, **arguments)
    except (ValueError, TypeError):  # no PEM, or one with a password
        found = None
    except Exception as error:  # UnsupportedAlgorithm
        raise ArtifactError(f"key: {error}; give an Ed25519 key") from None
    if not isinstance(found, getattr(ed25519, kind)):
        where = "key" if isinstance(key, bytes) else shown(Path(key))
        raise ArtifactError(
            f"{where}: it is no {word} Ed25519 key in PEM without a password; make one with "
            "openssl genpkey -algorithm ed25519"
        )
    return found


__all__ = ["Key", "sign", "signed_digest"]
