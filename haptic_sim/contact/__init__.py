"""Contact: parameters, penalties during contact, impulses upon contact, rigid contact, and the choice between them."""
