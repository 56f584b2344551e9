"""Fields of force in a world: media, springs, magnets and virtual fixtures, as parts that other packages have, too."""
