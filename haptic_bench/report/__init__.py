"""The report of a trial or a sweep: one page of HTML."""
