"""The Hugging Face hub as this product needs it: what is in its cache, what a file there is called and how large it is,
and what its refusals mean. Only asks; the transfer is elsewhere."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
from huggingface_hub import (
    constants,
    get_hf_file_metadata,  # pyright: ignore[reportUnknownVariableType]
    get_token,
    hf_hub_url,
    try_to_load_from_cache,
)
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    OfflineModeIsEnabled,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.file_download import repo_folder_name

from agent.config.profile import ModelSource
from agent.errors import RuntimeFailure
from agent.progress import span

PART, LOCK = ".part", ".part.lock"
SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Hub:
    """endpoint: its address. cache: the folder of its files, as all programs share it. token: None for none."""

    endpoint: str
    cache: Path
    token: str | None = field(default=None, repr=False)
    offline: bool = False

    @classmethod
    def usual(cls) -> Hub:
        """As the environment says: HF_ENDPOINT, HF_HOME, HF_TOKEN, HF_HUB_OFFLINE."""
        return cls(constants.ENDPOINT, Path(constants.HF_HUB_CACHE), get_token(), constants.HF_HUB_OFFLINE)


@dataclass(frozen=True, slots=True)
class Remote:
    """One file as the hub describes it. etag: the sha256 of its content, for all large files. size: bytes."""

    hub: Hub
    source: ModelSource
    url: str
    commit: str
    etag: str
    size: int

    @property
    def folder(self) -> Path:
        return self.hub.cache / repo_folder_name(repo_id=self.source.repo, repo_type="model")

    @property
    def blob(self) -> Path:
        return self.folder / "blobs" / self.etag

    @property
    def part(self) -> Path:
        return self.blob.with_name(f"{self.etag}{PART}")

    @property
    def lock(self) -> Path:
        """Held by who fetches it; holds the file's name."""
        return self.blob.with_name(f"{self.etag}{LOCK}")

    @property
    def here(self) -> int:
        """Bytes that have come already."""
        return self.part.stat().st_size if self.part.exists() else 0


def cached(hub: Hub, source: ModelSource) -> Path | None:
    """Where the file lies, if it is there; asks nobody."""
    try:
        found = try_to_load_from_cache(source.repo, source.file, hub.cache, source.revision)
    except HFValidationError as error:
        raise RuntimeFailure(f"{source.repo!r} is no name of a repository on the hub. Correct the profile.") from error
    return Path(found) if isinstance(found, str) else None


def come(hub: Hub, source: ModelSource) -> int:
    """Bytes of the file that an earlier run has left; asks nobody."""
    folder = hub.cache / repo_folder_name(repo_id=source.repo, repo_type="model") / "blobs"
    return max((p.stat().st_size for p in parts_of(folder, source.file)), default=0)


def parts_of(blobs: Path, file: str) -> list[Path]:
    """What is left of broken downloads of `file`, of all its versions: their locks hold its name."""
    found: list[Path] = []
    for lock in blobs.glob(f"*{LOCK}"):
        part = lock.with_name(lock.name.removesuffix(LOCK) + PART)
        with contextlib.suppress(OSError):
            if lock.read_text(encoding="utf-8", errors="replace") == file and part.exists():
                found.append(part)
    return found


def describe(hub: Hub, source: ModelSource) -> Remote:
    """Asks the hub. Raises RuntimeFailure."""
    url = hf_hub_url(source.repo, source.file, revision=source.revision, endpoint=hub.endpoint)
    try:
        about = get_hf_file_metadata(url, token=hub.token or False, endpoint=hub.endpoint)
    except (HfHubHTTPError, httpx2.HTTPError, OSError, ValueError) as error:
        raise explained(error, hub, source) from error
    if not about.commit_hash or not about.size or not about.etag or not SHA256.fullmatch(about.etag):
        raise RuntimeFailure(
            f"{hub.endpoint} does not describe {source.file} as the hub does (a proxy's page?). "
            "Check HF_ENDPOINT and the proxy settings."
        )
    return Remote(hub, source, url, about.commit_hash, about.etag, about.size)


def explained(error: Exception, hub: Hub, source: ModelSource) -> RuntimeFailure:
    """In a sentence with the next step; a token is never in it."""
    page, name = f"{hub.endpoint}/{source.repo}", f"{source.file} of {source.repo}"
    status = getattr(getattr(error, "response", None), "status_code", None)
    login = "log in with: hf auth login (or set HF_TOKEN)"
    if isinstance(error, RepositoryNotFoundError) and not isinstance(error, GatedRepoError):
        return RuntimeFailure(
            f"There is no {source.repo} on the hub, or it is private. Correct the profile, or {login}."
        )
    if isinstance(error, GatedRepoError) or status in (401, 403):
        if hub.token and not isinstance(error, GatedRepoError) and status == 401:
            return RuntimeFailure(f"The hub does not know your token and refuses {name}. Make a new one and {login}.")
        then = "with the account that your token belongs to" if hub.token else f"then {login}"
        return RuntimeFailure(f"The hub refuses {name}: ask for access at {page}, {then}.")
    if isinstance(error, RevisionNotFoundError):
        return RuntimeFailure(f"{source.repo} has no revision {source.revision}. Correct the profile.")
    if isinstance(error, RemoteEntryNotFoundError) or status == 404:
        return RuntimeFailure(f"There is no {name} on the hub. Look at {page}/tree/{source.revision}.")
    if status == 429:
        after = retry_after(error)
        when = f"in {span(after)}" if after is not None else "in a few minutes"
        return RuntimeFailure(f"The hub allows no more requests for now. Start again {when}: what has come stays.")
    if isinstance(error, OfflineModeIsEnabled):
        return RuntimeFailure(f"{name} is not on this disk, and HF_HUB_OFFLINE forbids fetching. Unset it.")
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return RuntimeFailure("The hub's certificate is not trusted here. Set SSL_CERT_FILE to your company's bundle.")
    if isinstance(error, httpx2.HTTPError) and not isinstance(error, HfHubHTTPError):
        return RuntimeFailure(
            f"{name} is not whole on this disk, and {hub.endpoint} cannot be reached ({_words(error)}). "
            "Check the network and the proxy, then start again."
        )
    return RuntimeFailure(f"The hub does not give {name}: {_words(error)}")


def _words(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__


def retry_after(error: Exception) -> float | None:
    """Seconds, as the hub's answer says."""
    text = str(getattr(getattr(error, "response", None), "headers", {}).get("Retry-After", ""))
    return float(text) if text.isdecimal() else None
