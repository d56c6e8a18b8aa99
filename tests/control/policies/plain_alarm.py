"""The test for a changed world and its alarms, one run and a number at a time."""

import math

import numpy as np

from headgate.control import Losses


def told_of(system, new, admitted):
    """What `observe` looks at of a round's view."""

    class Seen:
        losses = Losses(new, np.full(new.shape, np.nan))
        debt = np.zeros(len(new))

    Seen.system, Seen.admitted = system, admitted
    return Seen


class PlainTest:
    """One run, a number at a time."""

    def __init__(self):
        self.usual = self.samples = self.squares = self.rounds = self.evidence = 0.0

    def hear(self, losses, buffers, admitted):
        self.louder, self.of = 1.0, 0
        told = [(min(loss, 1e6), size) for loss, size in zip(losses, buffers, strict=True) if not math.isnan(loss)]
        count = min(admitted, sum(size for _, size in told))
        if count == 0:
            return
        loss = sum(loss * size for loss, size in told) / sum(size for _, size in told)
        worth = count * 60 / (count + 60)
        if self.samples >= 30 and self.usual > 0:
            ratio, scatter = loss / self.usual, (8 * 5 + self.squares) / (8 + self.rounds)
            self.louder, self.of = ratio, count
            # ln of gamma(3·usual) over gamma(usual) at this loss, shapes worth/scatter
            self.evidence = max(self.evidence + worth / scatter * (ratio - ratio / 3 - math.log(3)), 0.0)
            self.squares += worth * (min(ratio, 3) - 1) ** 2
            self.rounds += 1
        kept = self.samples * math.exp(-worth / 150)
        self.usual = (self.usual * kept + loss * worth) / (kept + worth)
        self.samples = kept + worth


class PlainAlarm(PlainTest):
    """The same with alarms: each is on until 20 new samples lose less than three times the usual, ten rounds at most."""

    def __init__(self, limit):
        super().__init__()
        self.limit, self.on, self.rang, self.rise, self.heard = limit, False, 0, 0, 0
        self.since = []

    def round(self, t, losses, buffers, count):
        if self.evidence == 0:
            self.rise = self.heard
        self.heard += count
        if not self.on:
            self.hear(losses, buffers, count)
            if self.evidence > self.limit:
                self.evidence, self.on, self.rang, self.since = 0.0, True, t, []
            return
        before = vars(self).copy()
        self.hear(losses, buffers, count)  # only to be told by how much the usual is exceeded
        louder, of = self.louder, self.of
        vars(self).update(before)
        self.since += [(louder, of)]
        if sum(of for _, of in self.since) >= 20:
            self.on = sum(louder * of for louder, of in self.since) >= 3 * sum(of for _, of in self.since)
            self.since = []
        if self.on and t - self.rang >= 10:
            self.on, self.usual, self.samples, self.squares, self.rounds = False, 0.0, 0.0, 0.0, 0.0
