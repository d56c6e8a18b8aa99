"""Sources give every sample once, whatever they are asked for at a time."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.errors import DataError
from headgate.flower.sources import CallableSource, DatasetSource, Sample, pack, unpack

PORTIONS = st.lists(st.integers(0, 4), min_size=1, max_size=8)


def drawn(source, portions):
    """All that comes when a source is asked for so many at a time, as a client
    would.
    """
    cursor, samples = 0, []
    for count in portions:
        batch = source.read(cursor, count)
        assert (
            source.read(cursor, count) == batch
        )  # asked again after a crash, it gives the same
        assert len(batch.samples) <= count
        cursor = batch.cursor
        samples += batch.samples
    return samples


def mapped(path, count):
    """Arrays, one of which is mapped from a file."""
    np.save(path.with_suffix(".npy"), np.arange(2 * count).reshape(count, 2))
    return DatasetSource(
        np.load(path.with_suffix(".npy"), mmap_mode="r" if count else None),
        np.arange(count) % 3,
    )


class Pairs:
    """As torch's data sets are: a length and items, each made when it is asked for."""

    def __init__(self, count):
        self.count, self.asked = count, 0

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        self.asked += 1
        return np.full((2, 2), i, np.float32), i % 3


class Dicts(Pairs):
    """As those of Hugging Face."""

    def __getitem__(self, i):
        return {"text": f"number {i}", "image": np.full(2, i), "label": i % 3}


class Streamed:
    """As the streams of Hugging Face: no length, and a quick way to go on."""

    def __init__(self, count, first=0):
        self.count, self.first = count, first

    def skip(self, n):
        return Streamed(self.count, self.first + n)

    def __iter__(self):
        return (
            {"x": np.arange(2), "label": i % 3} for i in range(self.first, self.count)
        )


SOURCES = {
    "a function": lambda path, count: CallableSource(
        lambda i: Sample(str(i), pack(i), i % 3) if i < count else None
    ),
    "arrays": mapped,
    "pairs": lambda path, count: DatasetSource(Pairs(count)),
    "dicts": lambda path, count: DatasetSource(Dicts(count)),
    "a stream": lambda path, count: DatasetSource(Streamed(count)),
}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES)
@given(portions=PORTIONS, count=st.integers(0, 9))
def test_every_sample_comes_once_and_in_order(make, portions, count, tmp_path_factory):
    source = make(tmp_path_factory.mktemp("source") / "it", count)
    samples = drawn(source, portions)
    wanted = min(sum(portions), count)
    assert [sample.label for sample in samples] == [i % 3 for i in range(wanted)]
    assert len({sample.key for sample in samples}) == wanted


def test_items_of_data_sets_come_back_as_they_were_and_only_those_admitted_are_read():
    torch = pytest.importorskip(
        "torch", reason="needs PyTorch: pip install 'headgate[sim]'"
    )
    data = Pairs(1000)
    batch = DatasetSource(data).read(5, 3)
    assert (data.asked, batch.cursor) == (3, 8)
    loaded = next(
        iter(
            torch.utils.data.DataLoader(
                [unpack(sample.payload) for sample in batch.samples], batch_size=3
            )
        )
    )
    assert (loaded[0].shape, loaded[0].dtype, loaded[1].tolist()) == (
        (3, 2, 2),
        torch.float32,
        [2, 0, 1],
    )
    batch = DatasetSource(Dicts(9)).read(7, 9)
    loaded = next(
        iter(
            torch.utils.data.DataLoader(
                [unpack(sample.payload) for sample in batch.samples], batch_size=3
            )
        )
    )
    assert (loaded["text"], loaded["label"].tolist()) == (
        ["number 7", "number 8"],
        [1, 2],
    )
    tensors = torch.utils.data.TensorDataset(
        torch.ones(4, 2), torch.tensor([7, 8, 9, 6])
    )
    assert [sample.label for sample in DatasetSource(tensors).read(1, 2).samples] == [
        8,
        9,
    ]
    (sample,) = (
        DatasetSource(Dicts(1), label=lambda item: item["text"]).read(0, 1).samples
    )
    assert sample.label == "number 0"
    for wrong in (
        DatasetSource(Dicts(1), label="none"),
        DatasetSource(Pairs(1), label=0),
        DatasetSource(np.zeros((2, 3, 4))),
    ):
        with pytest.raises(DataError, match="an item has no label"):
            wrong.read(0, 1)
    with pytest.raises(DataError, match="a value of object is no array"):
        pack({"x": object()})
    with pytest.raises(DataError, match="holds no array"):
        unpack(b"no array")


@given(
    st.lists(st.floats(allow_nan=False), max_size=5),
    st.sampled_from(["<f4", "<f8", "<i8", "u1"]),
)
def test_arrays_survive_packing(values, kind):
    array = (
        np.nan_to_num(np.array(values), posinf=9, neginf=-9).clip(0, 200).astype(kind)
    )
    there = unpack(pack(array))
    assert there.dtype == array.dtype
    assert np.array_equal(there, array)
