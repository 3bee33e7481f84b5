"""Console commands beside the conversation: server, doctor, setup."""
