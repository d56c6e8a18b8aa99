"""The rule of `headgate`, slow and plain: one run, every price in a list, names as in
contributing/headgate.md.

This is the judge of the policy: `tests/control/policies/test_headgate_rule.py` compares
every purchase exactly. It needs numpy for its powers alone, so that both round alike.
Run it to see a hundred rounds: python examples/headgate_rule.py
"""

import math
import random
import struct

import numpy as np

EPSILON = 2.0**-30


def within(low, x, high):
    return min(max(x, low), high)


def seen_as(price, bits):
    """A price without the last bits of its float64: the lower end of its bin."""
    (whole,) = struct.unpack("<q", struct.pack("<d", price + 0.0))
    return struct.unpack("<d", struct.pack("<q", whole >> bits << bits))[0]


class Prices:
    """(price as felt, what it costs) of all prices that are remembered, and how many of
    their bits are not looked at.
    """

    def __init__(self, latest, bins):
        self.latest, self.bins, self.bits = latest, bins, 0
        self.seen, self.taken = [], set()

    def add(self, felt, cost):
        if self.latest is not None:
            self.seen = [*self.seen, (felt, cost)][-self.latest :]
            return
        if seen_as(felt, self.bits) not in self.taken:
            while len(self.taken) == self.bins:
                self.bits += 1
                self.taken = {seen_as(each, self.bits) for each, _ in self.seen}
        self.taken.add(seen_as(felt, self.bits))
        self.seen.append((felt, cost))

    def known(self):
        """Whether a price is among those remembered so far, as a function."""
        bits, seen = self.bits, {seen_as(felt, self.bits) for felt, _ in self.seen}
        return lambda price: seen_as(price, bits) in seen

    def deserve(self, prices, spend, near, ahead, known):
        """The share of its places that each of these prices deserves where a place may
        cost `spend` a round.

        A share `near` 0 or 1 becomes 0 or 1, at a price that is new all do; 0 only
        `ahead` of the floor.
        """
        seen = sorted((seen_as(felt, self.bits), cost) for felt, cost in self.seen)
        money, total, theta = spend * len(seen), 0.0, math.inf
        for felt, cost in seen:
            total += cost
            if total > money:
                theta = felt
                break
        below = sum(cost for felt, cost in seen if felt < theta)
        at = sum(cost for felt, cost in seen if felt == theta)
        edge = within(0.0, (money - below) / at, 1.0) if at else 1.0
        if near:
            if not any(
                known(price) for price in prices if seen_as(price, self.bits) == theta
            ):
                near = 0.5
            edge = 1.0 if edge >= 1 - near else 0.0 if edge < near and ahead else edge
        return [
            1.0 if price < theta else edge if price == theta else 0.0
            for price in (seen_as(c, self.bits) for c in prices)
        ]


def fair(w, h, b, fairness):
    """From the purchase in proportion to the places towards w, as far as every client's
    share of all purchases lets it.
    """
    d, W, H = [each / sum(b) for each in b], sum(w), sum(h)
    x = 1.0
    for m in range(len(b)):
        u, ahead = w[m] - W * d[m], h[m] - H * d[m]
        if u != 0:
            x = min(
                x, (fairness * d[m] * (H + W) - (ahead if u > 0 else -ahead)) / abs(u)
            )
    return [W * d[m] + max(x, 0.0) * (w[m] - W * d[m]) for m in range(len(b))]


def headgate(
    path, b, C, T, *, turnover=1.0, smooth=0.0, ahead=None, remember="all",
    fill=4.0, overdraft=10.0, fairness=0.25, bins=512, short=256,
):  # fmt: skip
    """Yields what is bought in each round: a number where the price is one, a list
    where each client has its own.

    `path` are the prices, b the clients' places, C the budget of a round and T the
    number of rounds, None where it is open.
    """
    parts = [
        (i + 0.5) / 10 for i in range(10)
    ]  # j, the share of the places before each part
    prices = Prices(
        None if remember == "all" else remember * (10 if smooth else 1), bins
    )
    clients, places, renewable = range(len(b)), sum(b), turnover * sum(b)
    S, N, E, F, totals = 0.0, 0, 0.0, 0.0, []
    o, o_m, h = 0.0, [0.0] * len(b), [0] * len(b)
    a_m, n = [1.0] * len(b), [0] * len(b)

    def P(t):
        return min(t / T, 1.0)

    def felt_as(price, worth):
        return price / float((np.array([worth]) ** smooth)[0]) if smooth else price

    for t, c in enumerate(path, start=1):
        one = not isinstance(c, list)
        F = S if t == 2 else F

        known = prices.known()

        # Prices as they are felt: of ten parts of the places, or of each client.
        if not one:
            a_m = [(1 - min(n[m] / b[m], 1.0)) ** 2 * a_m[m] + 1 for m in clients]
            today = [(felt_as(c[m], a_m[m]), c[m]) for m in clients]
            ordered, kept = sorted(today, key=lambda each: each[0]), min(len(b), 5)
            for i in range(kept):
                prices.add(
                    *ordered[round(i * (len(b) - 1) / (kept - 1)) if kept > 1 else 0]
                )
        elif smooth:
            today = []
            for j in parts:
                a, newer = 1, 0.0
                for bought in totals[:-65:-1]:
                    newer += bought / places
                    a += newer < 1 - j
                today.append((felt_as(c, min(a, t) * (1 - j)), c))
            for each in today:
                prices.add(*each)
        else:
            today = [(c, c)]
            prices.add(c, c)

        # 1. Money
        if T is None:
            r = float(max(t, 20))
            m_t = max(C * (t + overdraft) - S, 0.0) / r + C * (1 - 1 / r)
        else:
            m_t = ((P(t) - P(t - 1)) / (1 - P(t - 1)) if P(t - 1) < 1 else 1.0) * max(
                C * T - S, 0.0
            )

        # 2. Limit, 3. floor, 4. turnover
        mean = c if one else sum(c[m] * b[m] for m in clients) / places
        E += min(C / mean if mean > 0 else math.inf, renewable)
        rounds = min(t, max(t, 20) if T is None else max(T - t + 1, 1))
        whole = not smooth and (T or t) > short
        near = min(0.5, 2 * rounds**-0.25) if whole else 0.0
        shares = prices.deserve(
            [felt for felt, _ in today],
            m_t / renewable,
            near,
            (N - E) / renewable >= 1,
            known,
        )
        floor = 1.0 if near and T and t >= T else within(0.0, (E - N) / renewable, 1.0)
        if one:
            shares = [sum(shares) / len(shares)]
        shares = [turnover * max(share, floor) for share in shares]

        # What may be spent after this round
        L = C * (t + overdraft) if T is None else C * T
        if t == 1 and fill:
            shares, L = [1.0] * len(shares), max(min(fill * C, L / 2), C)
        elif ahead is not None and T is not None and t > 1:
            part = (P(t) - P(1)) / (1 - P(1)) if P(1) < 1 else 1.0
            L = min(L, F + part * (L - F) + ahead * C)

        # Whole samples
        if one:
            D = min(shares[0] * places + o, float(places))
            bought = math.floor(
                min(D + EPSILON, max(L - S, 0.0) / c if c > 0 else math.inf)
            )
            for fewer in (bought - 1, 0):
                bought = max(fewer, 0) if S + c * bought > L else bought
            o = max(D - math.floor(D + EPSILON), 0.0)
            cost = c * bought
        else:
            g = fair([shares[m] * b[m] for m in clients], h, b, fairness)
            wanted, left = sum(c[m] * g[m] for m in clients), max(L - S, 0.0)
            if wanted > left:
                g = [each * (left / wanted) for each in g]
            n = [math.floor(min(g[m] + o_m[m] + EPSILON, b[m])) for m in clients]
            for fewer in ([math.floor(each * (1 - 1e-12)) for each in g], [0] * len(b)):
                n = fewer if S + sum(c[m] * n[m] for m in clients) > L else n
            o_m = [within(0.0, g[m] + o_m[m] - n[m], 1 - EPSILON) for m in clients]
            h = [h[m] + n[m] for m in clients]
            bought, cost = sum(n), sum(c[m] * n[m] for m in clients)
        S, N = S + cost, N + bought
        totals.append(bought)
        yield bought if one else n


if __name__ == "__main__":
    chance = random.Random(0)
    path = [chance.uniform(1, 10) for _ in range(100)]
    for t, (c, bought) in enumerate(
        zip(path, headgate(path, [8, 9, 10, 11, 12] * 2, 55.0, 100), strict=True),
        start=1,
    ):
        print(f"t = {t:3}  c = {c:5.2f}  bought {bought:3}")
