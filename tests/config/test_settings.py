from __future__ import annotations

from pathlib import Path

import pytest

from agent.config.settings import Loaded, Said, Settings, load_settings, with_environment
from agent.errors import ConfigError


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def test_without_files_nothing_is_settled(tmp_path: Path) -> None:
    loaded = load_settings(tmp_path / "absent", tmp_path / "absent too")
    assert (loaded.settings, loaded.warnings) == (Settings(), ())


def test_what_is_not_known_is_named_in_one_warning_and_the_rest_holds(tmp_path: Path) -> None:
    own = written(
        tmp_path / "config.toml", 'sandbox = "workspace"\nsandbox_home = [".aws"]\nzeta = 1\n[alpha]\nx = 2\n'
    )
    loaded = load_settings(own)
    assert loaded.settings == Settings(sandbox="workspace", sandbox_home=(".aws",))
    assert loaded.warnings == (f"{own}: not known and left out: alpha, zeta.",)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("sandbox = yes", "is not valid TOML"),
        ('profile = "x\n', "line 1"),
        ("profile = 1", 'profile must be a name, such as "smoke".'),
        ('permission_mode = "yolo"', 'must be "plan", "ask", "accept-edits" or "auto".'),
        ('sandbox = "all"', 'sandbox must be "off" or "workspace".'),
        ("sandbox_network = 1", "sandbox_network must be true or false."),
        ('sandbox_home = "x"', "sandbox_home must be a list of paths"),
        ("sandbox_home = [1]", "sandbox_home must be a list of paths"),
        ("permissions = 1", "permissions must be a table with allow, ask and deny."),
        ('[permissions]\nallow = "x"', "permissions.allow must be a list of rules"),
        ("[permissions]\nallow = [1]", "permissions.allow must be a list of rules"),
        ("[permissions]\nallowed = []", "permissions.allowed is not known; there are deny, ask, allow."),
    ],
)
def test_a_wrong_value_is_one_sentence_that_names_file_and_key(tmp_path: Path, text: str, says: str) -> None:
    own = written(tmp_path / "config.toml", text)
    with pytest.raises(ConfigError) as error:
        load_settings(own)
    assert says in str(error.value) and str(own) in str(error.value) and "\n" not in str(error.value).strip()


def test_a_project_can_make_things_stricter_and_never_looser(tmp_path: Path) -> None:
    own = written(tmp_path / "own" / "config.toml", "sandbox_network = true")
    project = written(tmp_path / "project" / "config.toml", 'sandbox = "workspace"\nsandbox_network = false')
    assert load_settings(own, project).settings == Settings(sandbox="workspace")

    own.write_text('sandbox = "workspace"')
    project.write_text('sandbox = "off"\nsandbox_network = true\nsandbox_home = [".ssh"]')
    loaded = load_settings(own, project)
    assert loaded.settings == Settings(sandbox="workspace")
    assert loaded.warnings == (
        f"{project}: sandbox, sandbox_home, sandbox_network is left out; only your own file can allow that.",
    )


def test_a_file_written_on_windows_is_read(tmp_path: Path) -> None:
    own = tmp_path / "config.toml"
    own.write_bytes(b'\xef\xbb\xbf# mine\r\nprofile = "smoke"\r\n')
    assert load_settings(own) == Loaded(Settings(profile="smoke"), (), (Said("profile", "smoke", str(own)),))


def test_a_project_may_start_stricter_only(tmp_path: Path) -> None:
    own, project = tmp_path / "config.toml", written(tmp_path / "p" / "config.toml", 'permission_mode = "plan"')
    assert load_settings(own, project).settings.permission_mode == "plan"
    project.write_text('permission_mode = "auto"\nprofile = "other"')
    loaded = load_settings(own, project)
    assert loaded.settings == Settings()
    assert [(s.key, s.counts) for s in loaded.said] == [("permission_mode", False), ("profile", False)]


def test_the_environment_overrules_files(tmp_path: Path) -> None:
    loaded = load_settings(written(tmp_path / "config.toml", 'profile = "smoke"'))
    assert with_environment(loaded, {}) is loaded
    changed = with_environment(loaded, {"DFLASH_PROFILE": "mine"})
    assert changed.settings.profile == "mine" and changed.said[-1] == Said("profile", "mine", "DFLASH_PROFILE")
