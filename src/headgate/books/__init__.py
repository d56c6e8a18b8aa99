"""Durable accounts of a run, for any framework: orders written ahead, receipts of clients, the ledger that follows."""
