"""JPEG, PNG and WebP pictures decoded to arrays of one size."""

import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headgate.errors import DataError, HeadgateError, SettingError
from headgate.learning.formats.types import SIZE, Pixels, reason
from headgate.limits import PIXELS, SMALL, check_growth

if TYPE_CHECKING:
    from PIL import Image


@dataclass(frozen=True)
class Encoded:
    """A picture still as JPEG, PNG or WebP, and what to call it in an error."""

    name: str
    data: bytes | Path


class _SizesDifferError(Exception):
    """Not all pictures have the size of the first."""


def decode_all(train: Sequence[Encoded], test: Sequence[Encoded], channels: int) -> tuple[Pixels, Pixels]:
    """Both splits as arrays: in the size all pictures share, otherwise SIZE x SIZE.

    Decoding starts in the hope of one size, because a first pass over all headers would cost more
    than starting over: where sizes differ, the first few pictures already tell.
    """
    pictures = [*train, *test]
    try:
        pixels = _decode_to(None, pictures, channels)
    except _SizesDifferError:
        pixels = _decode_to(SIZE, pictures, channels)
    return pixels[: len(train)], pixels[len(train) :]


def _decode_to(size: int | None, pictures: Sequence[Encoded], channels: int) -> Pixels:
    pixels = np.empty((len(pictures), channels, 1, 1), np.uint8)
    for place, picture in enumerate(pictures):
        image = decode(picture.name, picture.data, channels, size)
        if place == 0:
            _check_room(pictures, image, size is not None)
            pixels = np.empty((len(pictures), *image.shape), np.uint8)
        if image.shape != pixels.shape[1:]:
            raise _SizesDifferError
        pixels[place] = image
    return pixels


def _check_room(pictures: Sequence[Encoded], first: Pixels, squeezed: bool) -> None:
    """Before room is taken for as many pictures as large as the first."""
    wanted = len(pictures) * first.nbytes
    if wanted <= SMALL:
        return
    encoded = sum(len(each.data) if isinstance(each.data, bytes) else each.data.stat().st_size for each in pictures)
    try:
        check_growth(f"{pictures[0].name} and {len(pictures) - 1} more", wanted, encoded)
    except HeadgateError:
        if squeezed or all(_side(each) == first.shape[:0:-1] for each in pictures):
            raise
        raise _SizesDifferError from None


def _side(picture: Encoded) -> tuple[int, int]:
    """Width and height as the header says."""
    with _opened(picture.name, picture.data) as opened:
        return opened.size


def decode(name: str, data: bytes | Path, channels: int, size: int | None = None) -> Pixels:
    """One JPEG, PNG or WebP picture as (channels, H, W); with `size`, the whole picture squeezed to size x size."""
    with _opened(name, data) as picture:
        if picture.mode.startswith(("I", "F")):
            raise ValueError(f"mode {picture.mode} has more than 8 bits a pixel")
        plain = picture.convert("L" if channels == 1 else "RGB")
        if size is not None:
            plain = plain.resize((size, size), _library().Resampling.BILINEAR)
        pixels: Pixels = np.asarray(plain, np.uint8)
    return pixels[np.newaxis] if channels == 1 else pixels.transpose(2, 0, 1)


@contextmanager
def _opened(name: str, data: bytes | Path) -> Iterator["Image.Image"]:
    """A picture whose header was read and whose size is known; what goes wrong with it is one line."""
    library, file = _library(), io.BytesIO(data) if isinstance(data, bytes) else data
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a picture that is too large, which is refused below
            opened = library.open(file, formats=("JPEG", "PNG", "WEBP"))
        with opened as picture:
            width, height = picture.size
            if width * height > PIXELS:
                raise ValueError(f"{width} x {height} pixels; at most {PIXELS:,} in all")
            yield picture
    except Exception as error:  # decoders raise whatever they stumble over: OSError, SyntaxError, struct.error, ...
        unknown = isinstance(error, library.UnidentifiedImageError)
        why = "not a JPEG, PNG or WebP picture" if unknown else reason(error)
        raise DataError(f"{name}: picture cannot be decoded ({why})") from None


@cache
def _library() -> Any:
    """Pillow, where it is installed."""
    try:
        from PIL import Image
    except ImportError:
        raise SettingError("reading pictures needs pillow: pip install 'headgate[sim]'") from None
    return Image
