"""Parts of a lab's own: each class is registered in pyproject.toml, and named by its `type` in an experiment."""
