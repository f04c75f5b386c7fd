"""Details of profiles: the events of one operation or of one step, and the tiles that slices touch."""
