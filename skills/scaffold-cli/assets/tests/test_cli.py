import subprocess
import sys
from pathlib import Path

import pytest

from MODULE.cli import main


def test_lines_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one\ntwo\n")
    assert main(["lines", str(file)]) == 0
    assert capsys.readouterr().out == "2\n"


def test_a_missing_file_is_one_sentence_and_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lines", str(tmp_path / "none")]) == 1
    said = capsys.readouterr()
    assert "cannot read" in said.err and said.out == ""


def test_wrong_use_is_exit_code_2() -> None:
    with pytest.raises(SystemExit) as ended:
        main(["nonsense"])
    assert ended.value.code == 2


def test_it_runs_as_a_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "MODULE", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("NAME ")
