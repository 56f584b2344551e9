"""Signed distance fields and point shells of meshes: contacts of solids of any shape."""
