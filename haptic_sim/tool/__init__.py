"""What answers the controller at the servo rate: the environment or the local model, with the virtual tool in it."""
