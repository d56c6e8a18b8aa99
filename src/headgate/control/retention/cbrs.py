"""CBRS: as many of each class as there can be, and of each class an equally likely choice of all that ever came.

Source: Chrysakis and Moens, *Online continual learning from imbalanced data* (ICML 2020). Assumes that classes matter alike
and that the stream of each class does not drift.

There a full memory takes a sample of a class that was never the largest in place of a random one of the largest class; of a
class that was, with probability m/n in place of a random one of its own, n being how many of the class ever came. That asks
for counts. Here nothing is remembered. Every sample has a key, drawn once, and those with the lowest (place within the class
by key, key) stay. It is the same in law, but for one thing:

- A class that never was the largest has all that came. Of another the m smallest of n keys are held: a new one is among them
  with probability m/n and puts out the largest, which is as likely to be any of them.
- Sizes are those of CBRS: every class has all that came of it, or the most that any has, or one less.
- Which classes have the one more goes by key here, so a class of which more came is likelier to have it. There it hangs on
  who came when. It matters where there are hardly more places than classes.

So, as in `reservoir`, what is kept does not depend on the rounds in which samples came.
"""

from dataclasses import dataclass

import numpy as np

from headgate.control.retention.rule import NOBODY, Bools, Candidates, Capacity, Retention, rank_within


@dataclass(frozen=True, eq=False)
class Cbrs(Retention):
    """Classes are as even as they can be, and of each it is an equally likely choice of all samples ever admitted.

    Without labels all samples are one class: then it is `reservoir`.
    """

    capacity: Capacity = "buffer"
    by_class = True

    def keeps(self, given: Candidates) -> Bools:
        key = given.draw(given.position)
        group = np.where(given.there, 0 if given.label is None else given.label.astype(np.int64), NOBODY)
        return given.lowest(rank_within(group, np.zeros_like(group), key), key)
