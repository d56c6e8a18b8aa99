"""CBRS: as many of each class as there can be, and of each class an equally likely
choice of all that ever came.

Source: Chrysakis and Moens, *Online continual learning from imbalanced data* (ICML
2020). Assumes that classes matter alike and that the stream of each class does not
drift.

There a full memory takes a sample of a class that was never the largest in place of a
random one of the largest class; of a class that was, with probability m/n in place of a
random one of its own, n being how many of the class ever came. That asks for counts.
Here nothing is remembered. Every sample has a key, drawn once, and those with the
lowest (place within the class by key, key) stay. It is the same in law, but for one
thing:

- A class that never was the largest has all that came. Of another the m smallest of n
  keys are held: a new one is among them with probability m/n and puts out the largest,
  which is as likely to be any of them.
- Sizes are those of CBRS: every class has all that came of it, or the most that any
  has, or one less.
- Which classes have the one more goes by key here, so a class of which more came is
  likelier to have it. There it depends on the order in which they came. It matters
  where there are hardly more places than classes.

So, as in `reservoir`, what is kept does not depend on the rounds in which samples came.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.control.ranking import Candidates, ordered, rank_within
from headgate.control.retention import Retention


class CBRS(Retention):
    """Classes are as even as they can be, and of each it is an equally likely choice of
    all samples ever admitted.

    Without labels all samples are one class: then it is `reservoir`.
    """

    by_class = True

    def rank(self, candidates: Candidates) -> NDArray[Any]:
        key, group = candidates.draw(), candidates.group
        return ordered(rank_within(group, np.zeros_like(group), key), key)
