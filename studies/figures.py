"""The figures of studies and benchmarks, in SVG, PNG or PDF files."""

from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt

from headgate.analysis import figure_files
from headgate.analysis.figure_files import STYLE, draw_comparison, label

matplotlib.use("Agg")  # draws without a screen

__all__ = ["STYLE", "draw_comparison", "label", "plt", "save_figure"]


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure of pyplot to a file, and close it."""
    try:
        figure_files.save_figure(figure, path)
    finally:
        plt.close(figure)
