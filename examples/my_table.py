"""A data set of one's own without images: a table with a row of numbers for each sample."""

from dataclasses import dataclass

import numpy as np

from headgate.learning.data import DataSource


@dataclass(frozen=True)
class Customers(DataSource):
    """Six numbers of a customer, each in a unit of its own; three of them tell who comes back."""

    count: int = 3000

    def load(self):
        table = np.random.default_rng(0).normal([40, 3e4, 5, 0.2, 1.7e9, 7], [12, 8e3, 2, 0.1, 4e6, 3], (self.count, 6))
        labels = (table[:, 0] / 12 + table[:, 1] / 8e3 > table[:, 2] / 2 + 4.6).astype(int)
        test = self.count // 5
        return table[test:], labels[test:], table[:test], labels[:test]
