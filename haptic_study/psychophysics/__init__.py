"""Measurement of perception: `functions` are psychometric functions, `fitting` fits them to answers, `methods` choose
the next stimulus, `detection` has the indices of signal detection theory, `effects` sizes and tests of effects.

Pure functions of NumPy and SciPy: no clocks, no files, and random numbers from a seed alone.
"""
