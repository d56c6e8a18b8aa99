"""What happens in accounts, sent while it happens."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import asdict
from functools import partial

from headgate.books.books import Books, journal_of
from headgate.errors import HeadgateError
from headgate.web.accounts import answers
from headgate.web.accounts.keeper import Keeper

PAUSE = 5.0
"""seconds after which a stream looks for what other processes wrote, and says that it
is there
"""
MOST_STREAMS = 200
"""the most streams at a time"""
PAGE = 1_000


async def stream(
    keeper: Keeper,
    name: str,
    first: answers.EventList,
) -> AsyncIterator[str]:
    """Yield each event with its number, those that are known first."""
    keeper.streams += 1
    try:
        async for text in _followed(keeper, name, first):
            yield text
    finally:
        keeper.streams -= 1


async def _followed(
    keeper: Keeper,
    name: str,
    found: answers.EventList,
) -> AsyncIterator[str]:
    while not keeper.stopping:
        for event in found.events:
            yield f"id: {event.number}\ndata: {json.dumps(asdict(event))}\n\n"
        try:
            moved = keeper.lane(name).moved
            found = await keeper.call(name, partial(_after, found.next))
        except HeadgateError:
            return  # the client connects again, and says where it was
        if not found.events:
            yield ": here\n\n"
            with suppress(TimeoutError):
                await asyncio.wait_for(moved.wait(), PAUSE)


def _after(number: int, books: Books) -> answers.EventList:
    return answers.events(journal_of(books), number, PAGE)
