"""Figures of studies are written whole, in the format that their name says."""

import pytest
from matplotlib.figure import Figure

from headgate.errors import SettingError
from studies.figures import draw_comparison, label, save_figure

from ..test_escaping import NASTY


@pytest.mark.parametrize(
    ("suffix", "start"), [(".svg", b"<?xml"), (".png", b"\x89PNG"), (".pdf", b"%PDF")]
)
def test_the_name_of_a_figure_says_what_it_becomes(tmp_path, suffix, start):
    figure = Figure(figsize=(2, 1))
    figure.subplots().plot([1, 2])
    save_figure(figure, tmp_path / f"figure{suffix}")
    assert (tmp_path / f"figure{suffix}").read_bytes().startswith(start)


def test_another_format_is_refused(tmp_path):
    with pytest.raises(SettingError, match=r"accuracy\.bmp: must end in"):
        save_figure(Figure(), tmp_path / "accuracy.bmp")


def test_policies_may_have_any_name(tmp_path):
    figure = tmp_path / "figure.svg"
    assert all("\x1b" not in label(name) for name in NASTY)
    learnt = {"spend": 1.0, "last_by_seed": [0.5], "learnt": [0], "reference": False}
    draw_comparison([{"policy": name, **learnt} for name in NASTY], [], figure)
    assert figure.stat().st_size > 0
