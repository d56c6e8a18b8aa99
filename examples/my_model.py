"""A model of one's own: any torch module without buffers; called with the images' shape and the number of classes."""

from torch import nn


class TwoLayers(nn.Sequential):
    """One hidden layer with a smooth activation."""

    def __init__(self, shape, classes, width=32):
        features = shape[0] * shape[1] * shape[2]
        super().__init__(nn.Flatten(), nn.Linear(features, width), nn.Tanh(), nn.Linear(width, classes))
