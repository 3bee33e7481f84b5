"""The model client: our request in OpenAI's words, the server's stream in ours."""
