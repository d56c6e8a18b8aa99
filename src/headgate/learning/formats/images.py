"""JPEG, PNG and WebP pictures decoded to arrays of one size."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headgate.errors import DataError, SettingError
from headgate.learning.formats.checks import reason
from headgate.learning.formats.types import Pixels, Tick

_TICK_EVERY = 100


@dataclass(frozen=True)
class Encoded:
    """A picture still as JPEG, PNG or WebP, and what to call it in an error."""

    name: str
    data: bytes | Path


class _SizesDifferError(Exception):
    """Not all pictures have the size of the first."""


def decode_all(
    train: Sequence[Encoded], test: Sequence[Encoded], channels: int, size: int, tick: Tick | None
) -> tuple[Pixels, Pixels]:
    """Both splits as arrays: in the size all pictures share, otherwise size x size.

    Decoding starts in the hope of one size, because a first pass over all headers would cost more
    than starting over: where sizes differ, the first few pictures already tell.
    """
    pictures = [*train, *test]
    try:
        pixels = _decode_to(None, pictures, channels, tick)
    except _SizesDifferError:
        pixels = _decode_to(size, pictures, channels, tick)
    return pixels[: len(train)], pixels[len(train) :]


def _decode_to(size: int | None, pictures: Sequence[Encoded], channels: int, tick: Tick | None) -> Pixels:
    total = len(pictures)
    pixels = np.empty((total, channels, 1, 1), np.uint8)
    for done, picture in enumerate(pictures, start=1):
        image = decode(picture.name, picture.data, channels, size)
        if done == 1:
            pixels = np.empty((total, *image.shape), np.uint8)
        if image.shape != pixels.shape[1:]:
            raise _SizesDifferError
        pixels[done - 1] = image
        if tick is not None and (done % _TICK_EVERY == 0 or done == total):
            tick(done, total)
    return pixels


def decode(name: str, data: bytes | Path, channels: int, size: int | None = None) -> Pixels:
    """One JPEG, PNG or WebP picture as (channels, H, W); with `size`, the whole picture squeezed to size x size."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise SettingError("reading pictures needs pillow: pip install 'headgate[sim]'") from None
    try:
        with Image.open(io.BytesIO(data) if isinstance(data, bytes) else data, formats=("JPEG", "PNG", "WEBP")) as picture:
            if picture.mode.startswith(("I", "F")):
                raise ValueError(f"mode {picture.mode} has more than 8 bits a pixel")
            plain = picture.convert("L" if channels == 1 else "RGB")
    except Exception as error:  # decoders raise whatever they stumble over: OSError, SyntaxError, struct.error, ...
        why = "not a JPEG, PNG or WebP picture" if isinstance(error, UnidentifiedImageError) else reason(error)
        raise DataError(f"{name}: picture cannot be decoded ({why})") from None
    if size is not None:
        plain = plain.resize((size, size), Image.Resampling.BILINEAR)
    pixels: Pixels = np.asarray(plain, np.uint8)
    return pixels[np.newaxis] if channels == 1 else pixels.transpose(2, 0, 1)
