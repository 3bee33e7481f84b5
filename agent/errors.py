"""The error tree. Foreign exceptions are mapped to these once, at the edge of the adapter that owns the library.

AgentError
├── ConfigError            bad flag, file or profile: exit 2
├── ToolFailure            text for the model; the turn goes on
├── ModelFault             a request to the model server failed
│   ├── ContextOverflow    the prompt does not fit (both numbers)
│   ├── ServerUnavailable  nobody answers, or the connection was refused
│   ├── Stalled            no byte for too long
│   ├── BadReply           the stream broke off or held nonsense
│   ├── Looping            the reply repeats itself without end
│   └── Refused            the server answered with an error of its own
│       └── ToolsRefused   it cannot use the schema of one of the tools
├── RuntimeFailure         the engine could not be started: exit 3
└── Lagged                 a subscriber was too slow and has been dropped

Every message is one sentence that a user can read, with the next step where there is one.
"""

from __future__ import annotations


class AgentError(Exception):
    """Base of all expected failures; `str(error)` is fit for the screen."""

    kind = "error"


class ConfigError(AgentError):
    kind = "config"


class ToolFailure(AgentError):
    kind = "tool"


class ModelFault(AgentError):
    """`retryable`: the same request may succeed a moment later. `partial` says that some of the reply had arrived."""

    kind = "model"
    retryable = False


class ContextOverflow(ModelFault):
    kind = "context"

    def __init__(self, message: str, prompt_tokens: int | None = None, n_ctx: int | None = None) -> None:
        super().__init__(message)
        self.prompt_tokens = prompt_tokens
        self.n_ctx = n_ctx


class ServerUnavailable(ModelFault):
    """`busy`: it answers, but with 503."""

    kind = "server"
    retryable = True
    busy: bool = False


class Stalled(ModelFault):
    """Retryable only where the server itself says that it is working on nothing: then the request was lost."""

    kind = "stalled"


class BadReply(ModelFault):
    kind = "reply"
    retryable = True


class Looping(ModelFault):
    """`piece`: what is being repeated."""

    kind = "looping"

    def __init__(self, message: str, piece: str = "") -> None:
        super().__init__(message)
        self.piece = piece


class Refused(ModelFault):
    kind = "refused"

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class ToolsRefused(Refused):
    kind = "tools"


class RuntimeFailure(AgentError):
    """`last_words`: the last lines of the engine's log, oldest first."""

    kind = "engine"

    def __init__(self, message: str, last_words: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.last_words = last_words


class Lagged(AgentError):
    kind = "lagged"
