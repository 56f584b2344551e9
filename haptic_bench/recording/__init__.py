"""What is recorded of a trial: bags, the messages in the order of the tick, and the tables that are made of them."""
