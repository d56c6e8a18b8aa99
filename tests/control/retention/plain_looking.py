"""The rules that look at samples, and CBRS, a sample at a time in plain Python: what the vectorised ones must equal.

A sample's gradient by the last layer is written out here: one number for each class and feature.
"""

import math
import random
import runpy
from itertools import accumulate
from pathlib import Path

draw = runpy.run_path(str(Path(__file__).parent / "plain_replacement.py"))["draw"]


def gradient(error, features):
    return [e * f for e in error for f in features]


def product(one, other):
    return math.fsum(a * b for a, b in zip(one, other, strict=True))


def cosine(one, other):
    lengths = math.sqrt(product(one, one) * product(other, other))
    return max(-1.0, min(1.0, product(one, other) / lengths)) if lengths else 0.0


def gss(held, arriving, room, seed, client, labels, scores, batch=10):
    """GSS-greedy: the score is 1 + the largest cosine to a random batch of those in memory; 0.1 without any."""
    pulls = {i: gradient(scores[i]["error"], scores[i]["features"]) for i in (*held, *arriving)}
    inside = list(held)
    end = max(arriving) + 1

    def some(again):
        return sorted(inside, key=lambda i: draw(seed, client, i, again))[:batch]

    def score(i, among):
        return 1 + max(cosine(pulls[i], pulls[k]) for k in among) if among else 0.1

    beside = some(2 * end + 1)
    s = {i: score(i, [k for k in beside if k != i]) for i in held}
    for new in arriving:
        own = score(new, some(2 * new + 2))
        if len(inside) < room:
            inside.append(new)
            s[new] = own
        elif own < 1:
            weights = [s[i] for i in inside]
            if sum(weights) == 0:
                weights = [1.0] * len(inside)
            left = draw(seed, client, new) * sum(weights)
            victim = next(i for i, total in zip(inside, accumulate(weights), strict=True) if total > left)
            if s[victim] > 0 and draw(seed, client, new, 1) < s[victim] / (s[victim] + own):
                inside = sorted([*(i for i in inside if i != victim), new])
                s[new] = own
    return inside


def balancer(held, arriving, room, seed, client, labels, scores, easy=0.5, threshold=0.2):
    """FedBalancer, Algorithm 1: int(room·easy) from below the threshold and the rest from above, at random."""
    could, end = [*held, *arriving], max(arriving) + 1
    if len(could) <= room:
        return could
    loss = {i: scores[i]["loss"] for i in could}
    low, high = min(loss.values()), max(loss.values())
    limit = low + (high - low) * threshold
    below, above = ([i for i in could if (loss[i] >= limit) is hard] for hard in (False, True))
    count = int(room * easy)
    if count > len(below):
        count = len(below)
    elif room - count > len(above):
        count = room - len(above)

    def some(samples, number):
        return sorted(samples, key=lambda i: draw(seed, client, i, end))[:number]

    return sorted([*some(below, count), *some(above, room - count)])


def cbrs(held, arriving, room, seed, client, labels, scores):
    """Each arrival is put in; of one too many the one goes that stands last in its class, by key, and there by key."""
    inside = list(held)
    for new in arriving:
        inside.append(new)
        if len(inside) > room:
            keys = {i: draw(seed, client, i) for i in inside}
            place = {i: sum(labels[k] == labels[i] and keys[k] < keys[i] for k in inside) for i in inside}
            inside.remove(max(inside, key=lambda i: (place[i], keys[i])))
    return inside


def literal_cbrs(classes, room, seed):
    """Chrysakis and Moens, Algorithm 1, with counts and lots of its own: the positions kept of a stream of classes."""
    lots, inside, seen, full = random.Random(seed), [], {}, set()

    def of(c):
        return [i for i in inside if classes[i] == c]

    for new, c in enumerate(classes):
        seen[c] = seen.get(c, 0) + 1
        if len(inside) < room:
            inside.append(new)
        elif c not in full:
            most = max(len(of(other)) for other in seen)
            inside.remove(lots.choice([i for i in inside if len(of(classes[i])) == most]))
            inside.append(new)
        elif lots.random() <= len(of(c)) / seen[c]:
            inside.remove(lots.choice(of(c)))
            inside.append(new)
        if len(inside) == room:
            most = max(len(of(other)) for other in seen)
            full |= {other for other in seen if len(of(other)) == most}
    return sorted(inside)


def ode(held, arriving, room, seed, client, labels, scores, stores=None):
    """Places go round the classes that the client stores, then round the others; of each class by worth, then the newest."""
    could = [*held, *arriving]
    pulls = {i: gradient(scores[i]["error"], scores[i]["features"]) for i in could}
    together = [math.fsum(each) for each in zip(*pulls.values(), strict=True)]  # as many times their mean as they are
    worth = {i: product(pulls[i], together) for i in could}
    queues = {}
    for i in sorted(could, key=lambda i: (-worth[i], -i)):
        queues.setdefault(labels[i], []).append(i)
    stays = []
    for wanted in (True, False):
        mine = {c: list(queue) for c, queue in queues.items() if (stores is None or c in stores[client]) is wanted}
        while any(mine.values()):
            firsts = [queue.pop(0) for queue in mine.values() if queue]
            stays += sorted(firsts, key=lambda i: (-worth[i], -i))
    return sorted(stays[:room])
