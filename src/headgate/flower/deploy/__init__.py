"""Files for a deployment of Flower behind nginx (certificates, configuration, units), and one on loopback to try it."""
