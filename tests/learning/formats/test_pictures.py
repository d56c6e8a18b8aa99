"""Pictures are brought to one size, counted, and never clipped."""

import io
from pathlib import Path

import numpy as np
import pytest

from headgate.errors import DataError
from headgate.learning.formats import decode

from .written import Bytes, encoded, read

Image = pytest.importorskip("PIL.Image", reason="pillow is not installed")


def ramp(height: int, width: int) -> Bytes:
    return np.broadcast_to(np.linspace(0, 255, width).astype(np.uint8), (3, height, width)).copy()


def test_pictures_of_different_sizes_are_squeezed(tmp_path: Path) -> None:
    for split, width in (("train", 80), ("val", 120)):
        path = tmp_path / split / "n0" / "x.JPEG"
        path.parent.mkdir(parents=True)
        path.write_bytes(encoded(ramp(80, width), "PNG"))
    pictures = read(tmp_path)
    # The whole width is kept: the ramp still goes from black to white, in every size.
    for images in (pictures.train_images, pictures.test_images):
        assert images.shape == (1, 3, 64, 64)
        assert images[0, 0, 30].astype(int) == pytest.approx(np.linspace(0, 255, 64), abs=4)


def test_sixteen_bit_pictures_are_refused_not_clipped() -> None:
    out = io.BytesIO()
    Image.fromarray(np.full((4, 4), 4000, np.uint16)).save(out, "PNG")
    with pytest.raises(DataError, match=r"x: picture cannot be decoded \(mode I;16 has more than 8 bits"):
        decode("x", out.getvalue(), 1)
