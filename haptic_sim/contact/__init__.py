"""Contact: rows of contacts, penalties during contact, impulses upon contact, and when which of them acts."""
