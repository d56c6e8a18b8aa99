"""Nets that the compiled executor takes."""

from torch import nn

from .worlds import CLASSES

GREY, COLOUR = (1, 8, 8), (3, 8, 8)


def like_lenet(channels=1):
    """LeNet's layers in small; the second convolution's outputs and taps are odd."""
    return nn.Sequential(
        nn.Conv2d(channels, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(4, 5, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, CLASSES),
    )  # fmt: skip


def averaged(channels=1):
    """Padding where the slope of the input is wanted, windows that leave an edge out, and an activation at the end."""
    return nn.Sequential(
        nn.Conv2d(channels, 3, 5, padding=2), nn.Tanh(), nn.AvgPool2d(3),
        nn.Conv2d(3, 2, 3, padding=1), nn.Tanh(), nn.ReLU(), nn.Flatten(), nn.Linear(8, CLASSES), nn.Tanh(),
    )  # fmt: skip


def wide_windows(channels=1):
    """Layers before the first that learns; windows of three, with an edge; and nothing between convolutions."""
    return nn.Sequential(
        nn.Tanh(), nn.ReLU(), nn.Conv2d(channels, 6, 1), nn.Conv2d(6, 2, 1), nn.MaxPool2d(3), nn.Flatten(),
        nn.Linear(8, CLASSES),
    )  # fmt: skip


def without_linear():
    """Logits are the pixels of two channels, which lie side by side here and one after the other in torch."""
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.MaxPool2d(2), nn.Flatten())


def wide_rows():
    """Images of which only some rows are near at a time, and kernels too large to lie ready for each window."""
    return nn.Sequential(
        nn.Conv2d(1, 51, 3), nn.ReLU(), nn.Conv2d(51, 6, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(252, 5), nn.ReLU(), nn.Linear(5, CLASSES),
    )  # fmt: skip


def without_convolution(channels=1):
    """Features that are no whole vectors, an activation of its own and one that a layer takes in."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64 * channels, 9), nn.Tanh(), nn.Linear(9, 6, bias=False), nn.ReLU(), nn.Linear(6, CLASSES)
    )


def one_layer(channels=1):
    return nn.Sequential(nn.Flatten(), nn.Linear(64 * channels, CLASSES))
