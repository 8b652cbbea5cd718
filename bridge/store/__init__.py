"""The store: states, their names and their bytes, in one folder that several processes may share."""
