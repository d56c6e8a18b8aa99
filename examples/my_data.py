"""A data set of one's own: uint8 images and whole labels, for training and for
testing.
"""

from dataclasses import dataclass

import numpy as np

from headgate.learning.data import DataSource


@dataclass(frozen=True)
class Stripes(DataSource):
    """Horizontal stripes, vertical stripes or neither, under noise."""

    count: int = 3000

    def load(self):
        labels, test = np.arange(self.count) % 3, self.count // 5
        images = np.random.default_rng(0).integers(
            0, 216, (self.count, 8, 8), dtype=np.uint8
        )
        images[labels == 0, ::2, :] += 40
        images[labels == 1, :, ::2] += 40
        return images[test:], labels[test:], images[:test], labels[:test]
