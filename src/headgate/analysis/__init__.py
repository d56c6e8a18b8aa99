"""The analysis of runs and rehearsals: tables, comparisons, figures and reports.

Its modules are imported one by one, because most commands need few of them.
"""

__all__ = [
    "comparison",
    "curves",
    "display",
    "figures",
    "formatting",
    "intervals",
    "limits",
    "pages",
    "rehearsal",
    "replay",
    "report",
    "runs",
    "savings",
    "summary",
    "tables",
]
