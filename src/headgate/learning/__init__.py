"""Learning on real images: the data sets, where they come from and how their files are read."""
