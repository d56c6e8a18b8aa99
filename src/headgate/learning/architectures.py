"""The networks of the shipped models, as torch modules for images of a shape and a
number of classes.
"""

from torch import Tensor, nn

from headgate.errors import SettingError

Shape = tuple[int, int, int]


def logistic(shape: Shape, classes: int) -> nn.Module:
    linear = nn.Linear(shape[0] * shape[1] * shape[2], classes)
    nn.init.zeros_(linear.weight)
    nn.init.zeros_(linear.bias)
    return nn.Sequential(nn.Flatten(), linear)


def lenet(shape: Shape, classes: int) -> nn.Module:
    """Build LeNet-5 with ReLU and max-pooling; 28x28 images are padded to 32x32, the
    input size of LeNet-5.
    """
    channels, height, width = shape
    if min(height, width) < 28:
        raise SettingError(
            "model.kind = lenet: needs images of 28x28 or more, these are"
            f" {height}x{width}"
        )
    padding = 2 if height == width == 28 else 0

    def left(length: int) -> int:
        return ((length + 2 * padding - 4) // 2 - 4) // 2

    return nn.Sequential(
        nn.Conv2d(channels, 6, 5, padding=padding), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * left(height) * left(width), 120), nn.ReLU(),
        nn.Linear(120, 84), nn.ReLU(),
        nn.Linear(84, classes),
    )  # fmt: skip


class Residual(nn.Module):
    """A block that returns x + f(x), where f is a sequence of layers."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.f = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        added: Tensor = self.f(x)
        return x + added


def resnet9(shape: Shape, classes: int) -> nn.Module:
    """Build ResNet-9 with Mish and GroupNorm, which, unlike BatchNorm, has no state
    besides its parameters.
    """
    channels, height, width = shape
    if min(height, width) < 8:
        raise SettingError(
            "model.kind = resnet9: needs images of 8x8 or more, these are"
            f" {height}x{width}"
        )

    def block(inward: int, outward: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(
                inward,
                outward,
                3,
                padding=1,
                bias=False,
            ),
            nn.GroupNorm(32, outward),
            nn.Mish(),
        )

    return nn.Sequential(
        block(channels, 64),
        block(64, 128), nn.MaxPool2d(2), Residual(block(128, 128), block(128, 128)),
        block(128, 256), nn.MaxPool2d(2),
        block(256, 512), nn.MaxPool2d(2), Residual(block(512, 512), block(512, 512)),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(512, classes),
    )  # fmt: skip


SHIPPED = {"logistic": logistic, "lenet": lenet, "resnet9": resnet9}
"""builders of the shipped models, by their names in recipes"""
