"""Many federated runs at once: the engine, and the executors that do the clients' local
training for it.
"""
