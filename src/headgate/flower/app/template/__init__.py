"""The templates of the files of an app. `write.py` defines where each of them goes."""
