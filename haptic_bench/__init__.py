"""Experiments: catalogue, runner, record, replay, report, viewer, command line."""
