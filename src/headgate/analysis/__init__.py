"""The analysis of runs and rehearsals: summaries, comparisons, tables, figures and
reports.
"""
