"""The published experiments: the metrics, claims, additional columns and figures of each, one module an experiment.

An experiment's key `analysis` names its module, which is registered in the group `haptics.analyses`.
"""
