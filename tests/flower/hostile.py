"""Replies as no client of headgate sends them: each way to change an honest one, with
the reason for which it is rejected.
"""

import io

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord


def with_receipt(**changes):
    def tamper(reply):
        reply.content["headgate"] = ConfigRecord(
            {**reply.content["headgate"], **changes}
        )
        return reply

    return tamper


def says_it_did_nothing(known, held):
    """A report that hides the order it is on, without a contradiction: the server knows
    of `known` samples, of which it holds `held`."""

    def tamper(reply):
        none = dict.fromkeys(
            ("n", "lost", "withdrawn", "distinct", "uses", "squares"), 0
        )
        claim = {
            "rounds": [reply.content["headgate"]["round"]],
            "admitted": [0],
            "position": known,
            "occupancy": held,
        }
        return with_receipt(**none, **claim, trained=False, note="")(reply)

    return tamper


def with_arrays(**changes):
    """Arrays by name, or what stands in their place; None: left out."""

    def tamper(reply):
        arrays = dict(reply.content["arrays"])
        for name, value in changes.items():
            arrays.pop(name, None)
            if value is not None:
                arrays[name] = value if isinstance(value, Array) else Array(value)
        reply.content["arrays"] = ArrayRecord(arrays)
        return reply

    return tamper


def with_metrics(metrics):
    def tamper(reply):
        reply.content["metrics"] = MetricRecord(metrics)
        return reply

    return tamper


def without(*names):
    def tamper(reply):
        for name in names:
            del reply.content[name]
        return reply

    return tamper


def raw(data, stype="numpy.ndarray"):
    """An array of two numbers by its own account, whose bytes are these."""
    return Array("float64", (2,), stype, data)


def saved(array, save=np.save, **more):
    file = io.BytesIO()
    save(file, array, **more)
    return file.getvalue()


def header(text, version=b"\x01\x00"):
    """An array's beginning that says this of it, and no more."""
    return (
        b"\x93NUMPY"
        + version
        + len(text).to_bytes(2 if version[0] == 1 else 4, "little")
        + text
    )


def cut(name):
    """A damaged array, from which bytes are missing."""

    def tamper(reply):
        return with_arrays(
            **{name: raw(dict(reply.content["arrays"])[name].data[:-1])}
        )(reply)

    return tamper


WRONG_REPORTS = {
    "position": (with_receipt(position=99), "has ever admitted 99 samples"),
    "occupancy": (with_receipt(occupancy=0, n=0), "holds 0 samples"),
    "occupancy above position": (
        with_receipt(occupancy=99),
        "receipt.occupancy = 99: more than receipt.position",
    ),
    "more than ordered": (
        with_receipt(rounds=[1], admitted=[50], position=50),
        "admitted 50 samples in round 1",
    ),
    "no rounds": (
        with_receipt(rounds=[], admitted=[], position=0),
        "receipt.rounds = []: must ascend up to round 1",
    ),
    "n above what is held": (
        with_receipt(n=77),
        "receipt.n = 77: more than receipt.occupancy",
    ),
    "more uses than there can be": (
        with_receipt(uses=2**50, squares=2**50),
        "receipt.uses = 1125899906842624: more than",
    ),
    "more squares than there can be": (
        with_receipt(squares=2**50),
        "receipt.squares = 1125899906842624: more than",
    ),
    "fewer squares than uses": (with_receipt(squares=0), "receipt.uses = "),
    "more distinct ones than admitted": (
        with_receipt(distinct=99, uses=99, squares=99),
        "receipt.distinct = 99: more than",
    ),
    "more lost than admitted": (
        with_receipt(lost=99),
        "receipt.lost = 99: more than receipt.position",
    ),
    "another client": (
        with_receipt(client=2),
        "answers as client 2, was asked as client 0",
    ),
    "another round": (
        with_receipt(round=9, rounds=[9], admitted=[0]),
        "answers as round 9",
    ),
    "another experiment": (with_receipt(experiment="x"), "answers as experiment x"),
    "no whole number": (
        with_receipt(position=1.5),
        "receipt.position = 1.5: must be a whole number",
    ),
    "negative": (with_receipt(uses=-1), "receipt.uses = -1: must be a whole number"),
    "a list too long": (
        with_receipt(rounds=[1] * 70_000),
        "must be a list of whole numbers, at most 65536",
    ),
    "a note too long": (
        with_receipt(note="x" * 201),
        "must be one line of at most 200 printable characters",
    ),
    "a note that clears the screen": (
        with_receipt(note="\x1b[2J"),
        "must be one line of at most 200 printable characters",
    ),
    "a field too many": (
        with_receipt(more=1),
        "receipt.more: not a field of this version",
    ),
    "no record": (without("headgate"), "its answer has no record headgate"),
}
WRONG_UPDATES = {
    "not finite": (
        with_arrays(w=np.array([1.0, np.nan])),
        "w holds numbers that are not finite",
    ),
    "huge": (
        with_arrays(w=np.array([1e308, 0.0])),
        "w holds numbers that are not finite, or beyond 1e+100",
    ),
    "shape": (with_arrays(w=np.zeros(3)), "w has shape (3,), expected (2,)"),
    "dtype": (with_arrays(w=np.zeros(2, np.float32)), "w is float32, expected float64"),
    "byte order": (with_arrays(w=np.zeros(2, ">f8")), "w is >f8, expected float64"),
    "text": (with_arrays(w=np.array(["a", "b"])), "w is <U1, expected float64"),
    "a name missing": (with_arrays(w=None), "names differ: w missing"),
    "a name too many": (with_arrays(v=np.zeros(1)), "v too many"),
    "a thousand names": (
        with_arrays(**{f"v{i}" * 9: np.zeros(1) for i in range(1_000)}),
        "names differ: none missing, v0v0",
    ),
    "too long": (
        with_arrays(w=np.full(2, 1e9)),
        "the update has length 1.41421e+09, at most 1e+06 is accepted",
    ),
    "no arrays": (without("arrays"), "its answer has 0 sets of arrays"),
    "damaged bytes": (cut("w"), "w cannot be read"),
    "an npz": (
        with_arrays(w=raw(saved(np.zeros(2), np.savez))),
        "w cannot be read: it is not in numpy's form",
    ),
    "objects": (
        with_arrays(w=raw(saved(np.array([None, 1]), allow_pickle=True))),
        "w is object, expected float64",
    ),
    "a pickle": (with_arrays(w=raw(b"\x80\x04K\x01.")), "w cannot be read"),
    "another form": (
        with_arrays(w=raw(saved(np.zeros(2)), "torch.tensor")),
        "w cannot be read",
    ),
    "too many bytes": (
        with_arrays(w=raw(saved(np.zeros(9_000)))),
        "w has 72128 bytes, expected at most 4112",
    ),
    "one byte too many": (
        with_arrays(w=raw(saved(np.zeros(2)) + b"x")),
        "w cannot be read: it has 17 bytes of numbers, not 16",
    ),
    "a shape of terabytes": (
        with_arrays(
            w=raw(
                header(
                    b"{'descr': '<f8', 'fortran_order': False, 'shape':"
                    b" (2000000000000,)}\n"
                )
            )
        ),
        "w has shape (2000000000000,), expected (2,)",
    ),
    "a header that is code": (
        with_arrays(w=raw(header(b"__import__('os').abort()"))),
        "w cannot be read (ValueError",
    ),
    "a deep header": (
        with_arrays(w=raw(header(b"-" * 4_000 + b"1"))),
        "w cannot be read (",
    ),
    "a header that is longer than it is": (
        with_arrays(w=raw(b"\x93NUMPY\x02\x00\xff\xff\xff\xff{")),
        "w cannot be read (",
    ),
    "a version to come": (
        with_arrays(w=raw(header(b"{}", b"\x09\x00"))),
        "w cannot be read (",
    ),
    "a thousand metrics": (
        with_metrics({f"m{i}": 1.0 for i in range(1_000)}),
        "its answer has more than 100 metrics",
    ),
    "a metric with a long name": (
        with_metrics({"m" * 9_999: 1.0}),
        "a metric's name is not one line",
    ),
}
