"""`hlo bisect`: which pass, flag, version, or changed instruction makes a module fail."""
