"""Learning on real data: data sets and streams, models, local training and the server's
update.
"""
