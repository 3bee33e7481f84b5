"""MCP servers as tools of the model. Only `link`, `stdio`, `web`, `lenient` and `login` import the mcp library, which
costs more than the first paint: they are loaded in a thread once a server has to be started."""
