"""The replacement rules a sample at a time, in plain Python: what the vectorised ones
must equal.
"""

from headgate.control.randomness import Purpose

LOW = 2**32 - 1


def draw(seed, client, position, again=0):
    """Philox4x32-10 in whole numbers: a single draw by `uniform` takes twenty times as
    long.
    """
    c0, c1, c2, c3 = int(position), int(again), int(Purpose.RETENTION), int(client)
    k0, k1 = int(seed), 0
    for _ in range(10):
        p0, p1 = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c1, c2, c3 = p1 >> 32 ^ c1 ^ k0, p1 & LOW, p0 >> 32 ^ c3 ^ k1, p0 & LOW
        k0, k1 = k0 + 0x9E3779B9 & LOW, k1 + 0xBB67AE85 & LOW
    return ((c0 >> 5) * 2**26 + (c1 >> 6)) / 2**53


def reservoir(held, arriving, room, seed, client, labels):
    """Each arrival is put in; of one too many the one with the largest key goes."""
    held = list(held)
    for position in arriving:
        held.append(position)
        if len(held) > room:
            held.remove(max(held, key=lambda i: draw(seed, client, i)))
    return held


def class_balanced(held, arriving, room, seed, client, labels):
    """One leaves the largest class after the other: of an old one and a new one the old
    one, else by lot.
    """
    stays, end = [*held, *arriving], max(arriving, default=-1) + 1
    while len(stays) > room:
        classes = {}
        for i in stays:
            classes.setdefault(labels[i], []).append(i)
        most = max(map(len, classes.values()))
        last = [
            max(each, key=lambda i: (i not in arriving, draw(seed, client, i, end)))
            for each in classes.values()
            if len(each) == most
        ]
        stays.remove(max(last, key=lambda i: draw(seed, client, i, end)))
    return stays
