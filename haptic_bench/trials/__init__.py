"""A trial from its experiment to its report, alone or as one of a sweep."""
