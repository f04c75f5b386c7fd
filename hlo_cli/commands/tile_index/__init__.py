"""`hlo tile-index`: the address of an element, and the element at an address."""
