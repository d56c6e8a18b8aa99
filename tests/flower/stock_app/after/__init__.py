"""The same app with headgate: data cost money, and each client admits what it is told to."""
