"""The model file: a JSON header and raw arrays, written atomically and validated before use.

This module handles the bytes, see ``docs/model_file.md``. :mod:`softboost._file.values` handles the values in the
header, and :mod:`softboost._file.codecs` the parts of a model.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import secrets
import stat
import struct
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from .values import DEFAULT_MEMORY, DTYPES, Budget, Decoder, Encoder, ModelFileError

__all__ = ["dumps", "load", "loads", "save", "sealed", "write_atomically"]

Array = NDArray[Any]

MAGIC: Final = b"\x89SBOOST\n"
FORMAT_VERSION: Final = 1
PREFIX: Final = struct.Struct("<8sIIQ8x32s")  # magic, version, header length, file length, zeros, SHA-256 of the rest
DIGEST_AT: Final = PREFIX.size - 32
ALIGNMENT: Final = 8


@cache
def _version() -> str:
    return version("softboost")


# -- writing -----------------------------------------------------------------------------------------------------------


def dumps(model: Any) -> bytes:
    """The bytes of a model file."""
    return _written(model)[0]


def _written(model: Any) -> tuple[bytes, dict[str, Any]]:
    """The bytes, and the custom objects needed to load them."""
    encoder = Encoder()
    content = encoder.encode(model, "model")
    header = {
        "softboost": _version(),
        "kind": content["$"],
        "model": content,
        "arrays": [_describe(a) for a in encoder.arrays],
    }
    text = json.dumps(header, separators=(",", ":"), allow_nan=False).encode("ascii")
    text += b" " * (-(PREFIX.size + len(text)) % ALIGNMENT)
    parts = [text]
    for a in encoder.arrays:
        raw = a.astype(a.dtype.newbyteorder("<"), copy=False).tobytes(order="A")
        parts += [raw, bytes(-len(raw) % ALIGNMENT)]
    body = b"".join(parts)
    return sealed(len(text), body), encoder.custom_objects


def sealed(header_length: int, body: bytes, format_version: int = FORMAT_VERSION) -> bytes:
    """Prepend the prefix, with lengths and checksum, to header and arrays."""
    total = PREFIX.size + len(body)
    front = PREFIX.pack(MAGIC, format_version, header_length, total, bytes(32))[:DIGEST_AT]
    return front + hashlib.sha256(front + body).digest() + body


def _describe(a: Array) -> list[Any]:
    """Dtype, shape and, if the array is column-major, "F"; the order affects the rounding of matrix products."""
    name = a.dtype.newbyteorder("<").str
    fortran = a.flags.f_contiguous and not a.flags.c_contiguous
    return [name, list(a.shape), "F"] if fortran else [name, list(a.shape)]


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a model file; an existing file stays intact until the new one is complete on disk.

    The bytes are loaded first, so that a file that cannot be loaded never replaces one that can.
    """
    data, custom_objects = _written(model)
    try:
        loads(data, custom_objects, math.inf)
    except ModelFileError as error:
        raise ModelFileError(f"the model cannot be saved, because it could not be loaded again: {error}") from error
    write_atomically(path, data)


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Write to a new file in the same folder, then replace the old file in a single step."""
    target = Path(os.path.realpath(path))
    mode = None
    with suppress(FileNotFoundError):
        status = target.stat()
        if not stat.S_ISREG(status.st_mode):
            raise ModelFileError(f"path={os.fspath(path)!r} is a folder or a device, not a file; pass a file name")
        mode = stat.S_IMODE(status.st_mode)
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"path={os.fspath(path)!r}: the folder {str(target.parent)!r} does not exist; create it first"
        )
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        with os.fdopen(os.open(temporary, flags, 0o666), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            temporary.chmod(mode)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    """Flush the folder entry to disk, so that the rename survives a power cut."""
    if os.name != "posix":
        return
    with suppress(OSError):  # not supported by some network file systems; the file is in place nevertheless
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


# -- reading -----------------------------------------------------------------------------------------------------------


def load(
    path: str | os.PathLike[str],
    custom_objects: Mapping[str, Any] | None = None,
    *,
    memory_limit: float = DEFAULT_MEMORY,
) -> Any:
    """Load a model that was written by ``save``.

    Every length, shape, index, dtype and number is checked before use, and the file contains no code. Loading a file
    of unknown origin is therefore safe.

    Parameters
    ----------
    path : str or path-like
        The model file.
    custom_objects : dict of str to class or function, default=None
        Custom losses, transforms and functions of the model, by name.
    memory_limit : int, default=2**30
        Bytes that the model may use beyond the size of its file, for example for gates multiplied with Q.

    Returns
    -------
    model
        The fitted model; its predictions are bitwise identical to those of the saved model.

    Raises
    ------
    ValueError
        If the file is damaged, is not a model file, or was written by a newer version.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> from softboost import SoftBoostRegressor, load
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> model = SoftBoostRegressor().fit(X, X[:, 0] ** 2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "model.softboost"
    ...     model.save(path)
    ...     again = load(path)
    >>> bool(np.all(again.predict(X) == model.predict(X)))
    True
    """
    with open(path, "rb", opener=_open_without_waiting) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ModelFileError(f"{os.fspath(path)!r} is a folder, a pipe or a device, not a file")
        try:
            prefix = file.read(PREFIX.size)
            _check_prefix(prefix, status.st_size)
            data = prefix + file.read(status.st_size - len(prefix))
            return loads(data, custom_objects, memory_limit)
        except ModelFileError as error:
            raise ModelFileError(f"cannot load {os.fspath(path)!r}: {error}") from error


def _open_without_waiting(path: str, flags: int) -> int:
    """Open a file for reading; a named pipe is opened at once instead of waiting for a writer."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # Windows has neither


def loads(data: bytes, custom_objects: Mapping[str, Any] | None = None, memory_limit: float = DEFAULT_MEMORY) -> Any:
    """Load a model from the bytes of its file."""
    header_length = _check_prefix(data[: PREFIX.size], len(data))
    digest = hashlib.sha256(data[:DIGEST_AT])
    digest.update(memoryview(data)[PREFIX.size :])
    if digest.digest() != data[DIGEST_AT : PREFIX.size]:
        raise ModelFileError("the file is damaged: its checksum does not match; copy it again from its source")
    end = PREFIX.size + header_length
    try:
        header = json.loads(data[PREFIX.size : end].decode("ascii"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"the header is not valid JSON: {error}") from None
    if not isinstance(header, dict) or set(header) != {"softboost", "kind", "model", "arrays"}:
        raise ModelFileError("the header must have exactly the entries softboost, kind, model and arrays")
    if not (isinstance(header["softboost"], str) and isinstance(header["kind"], str)):
        raise ModelFileError("the entries softboost and kind of the header must be strings")
    arrays = _read_arrays(header["arrays"], memoryview(data)[end:])
    if not isinstance(header["model"], dict) or header["model"].get("$") != header["kind"]:
        raise ModelFileError(f"the kind in the header is {header['kind']!r}, but the model is of another class")
    decoder = Decoder(arrays, custom_objects or {}, Budget(memory_limit))
    try:
        model = decoder.decode_model(header["model"])
    except ModelFileError as error:
        if header["softboost"] == _version():
            raise
        by = f"{header['softboost']!r:.40}"
        raise ModelFileError(f"{error} (written by softboost {by}, this is {_version()})") from error
    if any(a is not None for a in arrays):
        raise ModelFileError("the file contains arrays that its model does not use")
    return model


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _check_prefix(prefix: bytes, file_length: int) -> int:
    """Check the prefix against the length of the file and return the length of the header."""
    if prefix[: len(MAGIC)] != MAGIC[: len(prefix)] or not prefix:
        raise ModelFileError("this is not a softboost model file; softboost.load reads files written by model.save")
    if len(prefix) < PREFIX.size:
        raise ModelFileError(f"the file is cut off after {len(prefix)} bytes; save the model again")
    _, format_version, header_length, total, _ = PREFIX.unpack(prefix)
    if format_version > FORMAT_VERSION:
        raise ModelFileError(
            f"the file has format {format_version} of a newer softboost, but version {_version()} reads formats up to "
            f"{FORMAT_VERSION}; upgrade softboost, or save the model with this version"
        )
    if format_version < 1:
        raise ModelFileError(f"the file has format {format_version}, which does not exist; the file is damaged")
    if total != file_length:
        raise ModelFileError(f"the file has {file_length} bytes instead of {total}; it is cut off or damaged")
    if header_length > total - PREFIX.size or (PREFIX.size + header_length) % ALIGNMENT:
        raise ModelFileError(f"a header of {header_length} bytes does not fit a file of {total}; the file is damaged")
    return int(header_length)


def _read_arrays(table: Any, data: memoryview) -> list[Array | None]:
    """Copies of all arrays; sizes are compared with the available bytes before memory is allocated."""
    if not isinstance(table, list):
        raise ModelFileError("arrays must be a list")
    out: list[Array | None] = []
    start = 0
    for i, row in enumerate(table):
        dtype, shape, order = _checked_description(i, row, len(data))
        n_bytes = math.prod(shape) * dtype.itemsize
        if n_bytes > len(data) - start:
            raise ModelFileError(f"array {i} needs {n_bytes} bytes, but the file has only {len(data) - start} left")
        flat = np.frombuffer(data[start : start + n_bytes], dtype=dtype)
        if dtype.kind == "b" and flat.view(np.uint8).max(initial=0) > 1:
            raise ModelFileError(f"array {i} of Booleans contains values other than 0 and 1")
        out.append(flat.astype(dtype.newbyteorder("=")).reshape(shape, order=order))
        start += n_bytes + -n_bytes % ALIGNMENT
    if start != len(data):
        raise ModelFileError(f"the arrays take {start} bytes, but the file has {len(data)} bytes for them")
    return out


def _checked_description(i: int, row: Any, n_bytes: int) -> tuple[np.dtype[Any], list[int], Any]:
    if not isinstance(row, list) or len(row) not in (2, 3) or not isinstance(row[0], str) or row[0] not in DTYPES:
        raise ModelFileError(f"array {i} must be described by [dtype, shape] with a dtype among {sorted(DTYPES)}")
    shape = row[1]
    if not isinstance(shape, list) or len(shape) > 8 or not all(type(n) is int and 0 <= n <= n_bytes for n in shape):
        raise ModelFileError(f"array {i} has an invalid shape")
    if len(row) == 3 and row[2] != "F":
        raise ModelFileError(f"array {i} has an unknown order {row[2]!r}")
    return DTYPES[row[0]], shape, "F" if len(row) == 3 else "C"
