"""The layouts on disk: every one gives the same pixels, every damage one line which names the file."""

import gzip
import io
import json
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from headgate.errors import DataError
from headgate.learning import formats
from headgate.learning.formats import Pictures, decode, read_batch, read_idx, recognise

pytest.importorskip("PIL", reason="pillow is not installed")
from PIL import Image

Bytes = NDArray[np.uint8]
CIFAR_CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


class Sample:
    """Twenty training and ten test images of ten classes, in the order of their labels."""

    def __init__(self, channels: int, side: int) -> None:
        random = np.random.default_rng(5)
        self.train_labels, self.test_labels = np.repeat(np.arange(10), 2), np.arange(10)
        self.train_images = random.integers(0, 256, (20, channels, side, side), dtype=np.uint8)
        self.test_images = random.integers(0, 256, (10, channels, side, side), dtype=np.uint8)

    @property
    def splits(self) -> dict[str, tuple[Bytes, NDArray[np.int64]]]:
        return {"train": (self.train_images, self.train_labels), "test": (self.test_images, self.test_labels)}


@pytest.fixture(scope="module")
def grey() -> Sample:
    return Sample(1, 28)


@pytest.fixture(scope="module")
def colour() -> Sample:
    return Sample(3, 32)


# writers


def idx_bytes(array: Bytes) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def write_idx(folder: Path, sample: Sample, packed: bool, names: tuple[str, ...] | None = None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    parts = [
        sample.train_images[:, 0],
        sample.train_labels.astype(np.uint8),
        sample.test_images[:, 0],
        sample.test_labels.astype(np.uint8),
    ]
    names = names or ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
    for name, part in zip(names, parts, strict=True):
        content = idx_bytes(part)
        (folder / (name + ".gz" * packed)).write_bytes(gzip.compress(content) if packed else content)


def write_binary(folder: Path, sample: Sample) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, (images, labels) in {
        "data_batch_1.bin": (sample.train_images[:12], sample.train_labels[:12]),
        "data_batch_2.bin": (sample.train_images[12:], sample.train_labels[12:]),
        "test_batch.bin": sample.splits["test"],
    }.items():
        records = np.concatenate([labels[:, None].astype(np.uint8), images.reshape(len(images), -1)], axis=1)
        (folder / name).write_bytes(records.tobytes())
    (folder / "batches.meta.txt").write_text("\n".join(CIFAR_CLASSES) + "\n\n")


def python2_pickle(images: Bytes, labels: list[int]) -> bytes:
    """The opcodes Python 2 wrote into the original distribution: strings, not bytes, and numpy.core."""

    def text(value: bytes) -> bytes:
        return b"U" + bytes([len(value)]) + value

    rows = images.reshape(len(images), -1)
    return b"".join(
        [
            b"\x80\x02}q\x01(" + text(b"batch_label") + b"q\x02" + text(b"training batch 1 of 5") + b"q\x03",
            text(b"labels") + b"q\x04]q\x05(" + b"".join(b"K" + bytes([label]) for label in labels) + b"e",
            text(b"data") + b"q\x06cnumpy.core.multiarray\n_reconstruct\nq\x07cnumpy\nndarray\nq\x08K\x00\x85q\x09",
            text(b"b") + b"\x87Rq\x0a(K\x01M" + struct.pack("<H", len(rows)) + b"M\x00\x0c\x86cnumpy\ndtype\nq\x0b",
            text(b"u1") + b"K\x00K\x01\x87Rq\x0c(K\x03" + text(b"|") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89",
            b"T" + struct.pack("<i", rows.size) + rows.tobytes() + b"tb",
            text(b"filenames") + b"q\x0d]q\x0e(" + text(b"a.png") + b"q\x0f" + text(b"b.png") + b"q\x10eu.",
        ]
    )


def batch_bytes(images: Bytes, labels: NDArray[np.int64], protocol: int) -> bytes:
    if protocol == 0:
        return python2_pickle(images, labels.tolist())
    batch = {
        b"batch_label": b"one",
        b"labels": labels.tolist(),
        b"data": images.reshape(len(images), -1),
        b"filenames": [b"a.png"],
    }
    return pickle.dumps(batch, protocol)


def write_batches(folder: Path, sample: Sample, protocol: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "data_batch_1").write_bytes(batch_bytes(sample.train_images[:12], sample.train_labels[:12], protocol))
    (folder / "data_batch_2").write_bytes(batch_bytes(sample.train_images[12:], sample.train_labels[12:], protocol))
    (folder / "test_batch").write_bytes(batch_bytes(*sample.splits["test"], protocol))
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": CIFAR_CLASSES, "num_vis": 3072}, protocol or 2))


def encoded(image: Bytes, kind: str = "PNG") -> bytes:
    out = io.BytesIO()
    picture = Image.fromarray(image[0] if len(image) == 1 else np.ascontiguousarray(image.transpose(1, 2, 0)))
    picture.save(out, kind, **({"lossless": True, "exact": True} if kind == "WEBP" else {}))
    return out.getvalue()


def write_pictures(folder: Path, sample: Sample, kind: str = "PNG", test: str = "val") -> None:
    for split, (images, labels) in sample.splits.items():
        for row, (image, label) in enumerate(zip(images, labels, strict=True)):
            path = folder / (test if split == "test" else split) / CIFAR_CLASSES[label] / f"{row:03}.{kind}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(encoded(image, kind))


def parquet_frame(
    images: Bytes, labels: NDArray[np.int64], kind: str = "PNG", image: str = "image", label: str = "label"
) -> pl.DataFrame:
    rows = [{"bytes": encoded(picture, kind), "path": f"{row}.png"} for row, picture in enumerate(images)]
    return pl.DataFrame({image: rows, label: labels.tolist()})


def hub_metadata(classes: list[str], label: str = "label") -> dict[str, str]:
    return {"huggingface": json.dumps({"info": {"features": {label: {"names": classes, "_type": "ClassLabel"}}}})}


def write_parquet(folder: Path, sample: Sample, names: tuple[str, str] = ("train.parquet", "test.parquet"), **how: Any) -> None:
    metadata = hub_metadata(how.pop("classes"), how.get("label", "label")) if "classes" in how else None
    for name, (images, labels) in zip(names, sample.splits.values(), strict=True):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        parquet_frame(images, labels, **how).write_parquet(folder / name, metadata=metadata)


def read(folder: Path, channels: int = 3, **how: Any) -> Pictures:
    """What `folder` holds, read as ten classes; the counts promised beforehand are those read."""
    source = recognise(folder)
    assert source is not None
    pictures = source.read(channels, 10, **how)
    assert source.counts() == (len(pictures.train_images), len(pictures.test_images))
    return pictures


def layout(folder: Path) -> str:
    source = recognise(folder)
    return source.format if source else ""


def assert_same(pictures: Pictures, sample: Sample) -> None:
    """Pixel for pixel, and in the form which torch takes over without a copy or a warning."""
    for split, (images, labels) in sample.splits.items():
        got_images, got_labels = getattr(pictures, f"{split}_images"), getattr(pictures, f"{split}_labels")
        np.testing.assert_array_equal(got_images, images)
        np.testing.assert_array_equal(got_labels, labels)
        assert (got_images.dtype, got_labels.dtype) == (np.uint8, np.int64)
        for array in (got_images, got_labels):
            assert array.flags.c_contiguous
            assert array.flags.writeable


def refuses(folder: Path, *parts: object, channels: int = 3) -> None:
    """Reading `folder` ends in one line with these parts."""
    with pytest.raises(DataError) as error:
        read(folder, channels)
    one_line(error, *parts)


def one_line(error: pytest.ExceptionInfo[DataError], *parts: object) -> None:
    message = str(error.value)
    assert "\n" not in message
    for part in parts:
        assert str(part) in message


# every layout


@pytest.mark.parametrize("packed", [False, True])
def test_idx_comes_back_exactly(tmp_path: Path, grey: Sample, packed: bool) -> None:
    write_idx(tmp_path, grey, packed)
    assert_same(read(tmp_path, 1), grey)
    assert layout(tmp_path) == "idx"


def test_idx_is_told_apart_by_content(tmp_path: Path, grey: Sample) -> None:
    write_idx(tmp_path / "raw", grey, False, names=("a", "b", "c.dat", "d"))
    (tmp_path / "README").write_text("not data")
    assert_same(read(tmp_path, 1), grey)


def test_an_unpacked_file_beside_its_gzip_is_one_file(tmp_path: Path, grey: Sample) -> None:
    write_idx(tmp_path, grey, False)
    write_idx(tmp_path, grey, True)
    assert_same(read(tmp_path, 1), grey)


def test_idx_with_equal_counts_and_silent_names_is_refused(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}-images").write_bytes(idx_bytes(np.zeros((3, 2, 2), np.uint8)))
        (tmp_path / f"{name}-labels").write_bytes(idx_bytes(np.zeros(3, np.uint8)))
    refuses(tmp_path, tmp_path, "a-images, b-images")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    array=st.one_of(
        arrays(np.uint8, st.tuples(st.integers(0, 40))),
        arrays(np.uint8, st.tuples(st.integers(0, 6), st.integers(1, 7), st.integers(1, 7))),
    ),
    packed=st.booleans(),
    cut=st.integers(1, 400),
)
def test_idx_round_trip_and_damage(tmp_path: Path, array: Bytes, packed: bool, cut: int) -> None:
    content = idx_bytes(array)
    path = tmp_path / "x"
    path.write_bytes(gzip.compress(content) if packed else content)
    got = read_idx(path)
    np.testing.assert_array_equal(got, array)
    assert got.shape == array.shape
    whole = path.read_bytes()
    for damaged in (whole[: max(len(whole) - cut, 0)], content + b"\x00", b"\x00\x00\x0d" + content[3:]):
        path.write_bytes(damaged)
        with pytest.raises(DataError) as error:
            read_idx(path)
        one_line(error, path)


@pytest.mark.parametrize("protocol", [0, 2, 3, 4])
def test_python_batches_come_back_exactly(tmp_path: Path, colour: Sample, protocol: int) -> None:
    write_batches(tmp_path, colour, protocol)
    pictures = read(tmp_path)
    assert_same(pictures, colour)
    assert pictures.classes == tuple(CIFAR_CLASSES)
    assert layout(tmp_path) == "cifar-10-batches-py"


def test_an_array_in_column_order_is_read_in_column_order(tmp_path: Path, colour: Sample) -> None:
    rows = np.asfortranarray(colour.test_images.reshape(10, -1))
    (tmp_path / "test_batch").write_bytes(pickle.dumps({"data": rows, "labels": list(range(10))}, 4))
    np.testing.assert_array_equal(read_batch(tmp_path / "test_batch")["data"], rows)


def test_binary_batches_come_back_exactly(tmp_path: Path, colour: Sample) -> None:
    write_binary(tmp_path / "cifar-10-batches-bin", colour)
    pictures = read(tmp_path)
    assert_same(pictures, colour)
    assert pictures.classes == tuple(CIFAR_CLASSES)
    assert layout(tmp_path) == "cifar-10-batches-bin"


@pytest.mark.parametrize(("kind", "test", "root"), [("PNG", "test", "."), ("WEBP", "val", "imagenette2-160")])
def test_picture_folders_come_back_exactly(tmp_path: Path, colour: Sample, kind: str, test: str, root: str) -> None:
    write_pictures(tmp_path / root, colour, kind, test)
    pictures = read(tmp_path)
    assert_same(pictures, colour)
    assert pictures.classes == tuple(CIFAR_CLASSES)
    assert layout(tmp_path) == "image folder"


def test_grey_pictures_keep_one_channel(tmp_path: Path, grey: Sample) -> None:
    write_pictures(tmp_path, grey)
    assert_same(read(tmp_path, 1), grey)


@pytest.mark.parametrize(
    ("names", "how"),
    [
        (("train.parquet", "test.parquet"), {"image": "img", "kind": "WEBP"}),
        (("train-00000-of-00001.parquet", "validation-00000-of-00001.parquet"), {}),
        (("data/train.parquet", "data/test.parquet"), {"label": "labels", "classes": CIFAR_CLASSES[::-1]}),
        (("plain_text/train/0000.parquet", "plain_text/test/0000.parquet"), {"classes": CIFAR_CLASSES}),
        (("a=b [c] *?/train.parquet", "a=b [c] *?/test.parquet"), {}),
    ],
)
def test_parquet_comes_back_exactly(tmp_path: Path, colour: Sample, names: tuple[str, str], how: dict[str, Any]) -> None:
    write_parquet(tmp_path, colour, names, **how)
    pictures = read(tmp_path)
    assert_same(pictures, colour)
    assert pictures.classes == (tuple(how["classes"]) if "classes" in how else None)
    assert layout(tmp_path) == "parquet"


def test_parquet_in_parts_keeps_their_order_and_further_columns(tmp_path: Path, colour: Sample) -> None:
    write_parquet(tmp_path, colour)
    (tmp_path / "train.parquet").unlink()
    frame = parquet_frame(*colour.splits["train"]).with_columns(
        writer=pl.Series([f"w{row}" for row in range(20)]), weight=pl.Series(np.arange(20.0)), gaps=pl.Series([None] + [1] * 19)
    )
    frame[:7].write_parquet(tmp_path / "train-00000-of-00002.parquet")
    frame[7:].write_parquet(tmp_path / "train-00001-of-00002.parquet")
    pictures = read(tmp_path)
    assert_same(pictures, colour)
    assert {name: column.tolist() for name, column in pictures.columns.items()} == {
        "writer": [f"w{row}" for row in range(20)],
        "weight": list(range(20)),
    }
    (tmp_path / "train-00000-of-00002.parquet").unlink()
    refuses(tmp_path, tmp_path / "train-00001-of-00002.parquet", "one of 2 parts")


def test_of_several_configurations_one_is_read(tmp_path: Path, colour: Sample) -> None:
    write_parquet(tmp_path, Sample(3, 8), ("320px/train.parquet", "320px/validation.parquet"))
    write_parquet(tmp_path, colour, ("160px/train.parquet", "160px/validation.parquet"))
    assert_same(read(tmp_path), colour)


def test_a_test_split_wins_over_a_validation_split(tmp_path: Path, colour: Sample) -> None:
    write_parquet(tmp_path, colour)
    (tmp_path / "validation.parquet").write_bytes((tmp_path / "train.parquet").read_bytes())
    assert_same(read(tmp_path), colour)


def test_a_complete_layout_wins_over_an_incomplete_one(tmp_path: Path, grey: Sample) -> None:
    write_idx(tmp_path, grey, True)
    (tmp_path / "t10k-labels-idx1-ubyte.gz").unlink()
    write_parquet(tmp_path, grey)
    assert_same(read(tmp_path, 1), grey)


def test_unfinished_and_hidden_files_are_not_data(tmp_path: Path, colour: Sample) -> None:
    (tmp_path / "train-00000-of-00002.parquet.part").write_bytes(b"PAR1 and no more")
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache" / "train.parquet").write_bytes(b"junk")
    assert recognise(tmp_path) is None
    write_parquet(tmp_path, colour)
    assert_same(read(tmp_path), colour)


# pictures


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
    assert read(tmp_path, size=16).train_images.shape == (1, 3, 16, 16)


def test_progress_counts_up_to_the_total(tmp_path: Path, colour: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats.images, "_TICK_EVERY", 7)
    write_parquet(tmp_path, colour)
    calls: list[tuple[int, int]] = []
    read(tmp_path, tick=lambda done, total: calls.append((done, total)))
    assert calls == [(7, 30), (14, 30), (21, 30), (28, 30), (30, 30)]


def test_sixteen_bit_pictures_are_refused_not_clipped() -> None:
    out = io.BytesIO()
    Image.fromarray(np.full((4, 4), 4000, np.uint16)).save(out, "PNG")
    with pytest.raises(DataError, match=r"x: picture cannot be decoded \(mode I;16 has more than 8 bits"):
        decode("x", out.getvalue(), 1)


# damage


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2 - 1])


def spoil_head(path: Path) -> None:
    path.write_bytes(b"\x00\x00\x0d\x03" + path.read_bytes()[4:])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def spoil_middle(path: Path) -> None:
    content = path.read_bytes()
    middle = len(content) // 2
    path.write_bytes(content[: middle - 500] + bytes(1000) + content[middle + 500 :])


def wrong_label(path: Path) -> None:
    path.write_bytes(b"\x0b" + path.read_bytes()[1:])


@pytest.mark.parametrize(
    ("write", "damaged", "damage"),
    [
        (lambda folder, sample: write_idx(folder, sample, True), "train-images-idx3-ubyte.gz", truncate),
        (lambda folder, sample: write_idx(folder, sample, True), "t10k-labels-idx1-ubyte.gz", empty),
        (lambda folder, sample: write_idx(folder, sample, True), "train-images-idx3-ubyte.gz", spoil_middle),
        (lambda folder, sample: write_idx(folder, sample, False), "train-images-idx3-ubyte", spoil_head),
        (write_binary, "data_batch_2.bin", truncate),
        (write_binary, "data_batch_2.bin", empty),
        (write_binary, "data_batch_2.bin", wrong_label),
        (lambda folder, sample: write_batches(folder, sample, 2), "data_batch_2", truncate),
        (lambda folder, sample: write_batches(folder, sample, 4), "test_batch", empty),
        (lambda folder, sample: write_batches(folder, sample, 0), "batches.meta", truncate),
        (write_parquet, "train.parquet", truncate),
        (write_parquet, "train.parquet", empty),
        (write_parquet, "train.parquet", spoil_middle),
        (write_pictures, "train/cat/006.PNG", truncate),
        (write_pictures, "val/dog/005.PNG", empty),
    ],
)
def test_damage_is_one_line_with_the_file(
    tmp_path: Path, colour: Sample, write: Callable[[Path, Sample], None], damaged: str, damage: Callable[[Path], None]
) -> None:
    write(tmp_path, colour)
    read(tmp_path)
    damage(tmp_path / damaged)
    refuses(tmp_path, tmp_path / damaged)


def test_labels_out_of_range_name_the_file(tmp_path: Path, grey: Sample, colour: Sample) -> None:
    write_idx(tmp_path / "idx", grey, False)
    path = tmp_path / "idx" / "t10k-labels-idx1-ubyte"
    path.write_bytes(idx_bytes(np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 12], np.uint8)))
    refuses(tmp_path / "idx", path, "label 12 is outside 0..9", channels=1)

    write_parquet(tmp_path / "parquet", colour)
    path = tmp_path / "parquet" / "test.parquet"
    parquet_frame(colour.test_images, np.array([0, -1, *range(8)])).write_parquet(path)
    refuses(tmp_path / "parquet", path, "label -1 is outside 0..9")


def test_images_and_labels_must_go_together(tmp_path: Path, grey: Sample) -> None:
    write_idx(tmp_path, grey, False)
    path = tmp_path / "train-labels-idx1-ubyte"
    path.write_bytes(idx_bytes(np.zeros(19, np.uint8)))
    refuses(tmp_path, path, "19 labels for the 20 images", channels=1)
    source = recognise(tmp_path)
    assert source is not None
    with pytest.raises(DataError, match="19 labels for the 20 images"):
        source.counts()


def test_an_idx_header_that_promises_too_much_does_not_take_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"\x00\x00\x08\x03" + b"\xff" * 12 + bytes(100))
    with pytest.raises(DataError) as error:
        read_idx(path)
    one_line(error, path, "only 100 are there")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.rename({"image": "photo"}), "has photo, label"),
        (lambda frame: frame.with_columns(image=pl.lit("x.png")), "not a struct with bytes"),
        (lambda frame: frame.with_columns(label=pl.lit("cat")), "not whole numbers"),
        (lambda frame: frame.with_columns(label=pl.when(pl.int_range(pl.len()) == 3).then(None).otherwise("label")), "row 3"),
        (lambda frame: frame.with_columns(image=pl.struct(bytes=pl.lit(None, pl.Binary), path=pl.lit("p"))), "empty in row 0"),
        (lambda frame: frame.with_columns(image=pl.struct(bytes=pl.lit(b"GIF89a"), path=pl.lit("p"))), "row 0: picture cannot"),
    ],
)
def test_parquet_of_another_make_is_refused(
    tmp_path: Path, colour: Sample, change: Callable[[pl.DataFrame], pl.DataFrame], message: str
) -> None:
    write_parquet(tmp_path, colour)
    change(parquet_frame(*colour.splits["train"])).write_parquet(tmp_path / "train.parquet")
    refuses(tmp_path, tmp_path / "train.parquet", message)


def test_parquet_metadata_must_be_whole_and_agree(tmp_path: Path, colour: Sample) -> None:
    write_parquet(tmp_path, colour, classes=CIFAR_CLASSES)
    path = tmp_path / "test.parquet"
    for metadata, message in (
        ({"huggingface": "{"}, "damaged metadata"),
        (hub_metadata(list("0123456789")), "other class names"),
    ):
        parquet_frame(*colour.splits["test"]).write_parquet(path, metadata=metadata)
        refuses(tmp_path, path, message)


@pytest.mark.parametrize(
    ("write", "gone", "message"),
    [
        (write_pictures, "val", "none in test, val or validation"),
        (write_binary, "test_batch.bin", "without test batches"),
        (lambda folder, sample: write_batches(folder, sample, 4), "data_batch_*", "without training batches"),
        (write_parquet, "test.parquet", "found train.parquet"),
    ],
)
def test_half_a_data_set_is_refused(
    tmp_path: Path, colour: Sample, write: Callable[[Path, Sample], None], gone: str, message: str
) -> None:
    write(tmp_path / "data", colour)
    for path in (tmp_path / "data").glob(gone):
        path.rename(tmp_path / path.name)
    refuses(tmp_path / "data", tmp_path / "data", message)


def test_a_class_known_only_to_the_test_set_is_refused(tmp_path: Path, colour: Sample) -> None:
    write_pictures(tmp_path, colour)
    (tmp_path / "val" / "cat").rename(tmp_path / "val" / "lynx")
    refuses(tmp_path, tmp_path / "val" / "lynx")


# pickles are replayed, never run


class Evil:
    """Unpickled, it would make the file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_pickle_which_calls_something_is_refused_and_not_run(tmp_path: Path, protocol: int) -> None:
    (tmp_path / "data_batch_1").write_bytes(pickle.dumps({"data": Evil(tmp_path / "was here"), "labels": []}, protocol))
    with pytest.raises(DataError) as error:
        read_batch(tmp_path / "data_batch_1")
    one_line(error, tmp_path / "data_batch_1")
    assert not (tmp_path / "was here").exists()


@pytest.mark.parametrize(
    "batch",
    [
        [1, 2],
        {"labels": [1]},
        {"data": np.zeros((1, 3072), np.uint8), "fine_labels": [1]},
        {"data": np.zeros((1, 3072), np.uint8), "labels": [1, 2]},
        {"data": np.zeros((1, 3072), np.uint8), "labels": [True]},
        {"data": np.zeros((1, 3072), np.float32), "labels": [1]},
        {"data": np.zeros((1, 3071), np.uint8), "labels": [1]},
        {7: 8},
    ],
)
def test_a_pickle_of_something_else_is_refused(tmp_path: Path, colour: Sample, batch: Any) -> None:
    write_batches(tmp_path, colour, 4)
    (tmp_path / "data_batch_1").write_bytes(pickle.dumps(batch, 4))
    refuses(tmp_path, tmp_path / "data_batch_1")


SMALL_BATCHES = [batch_bytes(np.zeros((2, 3, 32, 32), np.uint8), np.array([3, 4]), protocol) for protocol in (0, 2, 4)]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    good=st.sampled_from(SMALL_BATCHES),
    # The structure lies at both ends, the pixels between them.
    changes=st.lists(st.tuples(st.integers(-80, 400), st.integers(0, 255)), min_size=1, max_size=4),
    cut=st.none() | st.integers(0, 7000),
)
def test_a_damaged_pickle_raises_nothing_but_data_errors(
    tmp_path: Path, good: bytes, changes: list[tuple[int, int]], cut: int | None
) -> None:
    content = bytearray(good)
    for place, value in changes:
        content[place] = value
    path = tmp_path / "data_batch_1"
    path.write_bytes(content[:cut])
    message, batch = "", {}
    try:
        batch = read_batch(path)
    except DataError as error:
        message = str(error)
    assert "\n" not in message
    assert message.startswith(str(path)) if message else all(isinstance(key, str) for key in batch)
