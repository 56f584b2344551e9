"""The tool's side, which answers the controller at the servo rate: environment or local model, and the virtual tool."""
