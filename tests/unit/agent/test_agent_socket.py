"""The Unix socket of an agent: whose file it is, and what becomes of one that nobody listens on."""

from __future__ import annotations

import socket
import stat
from pathlib import Path

import pytest

from bus.agent.unix_socket import listening
from bus.errors import ConfigurationError


def connect(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))


def test_it_is_there_for_user_and_group_and_gone_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "agent.sock"
    with listening(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        connect(path)
    assert not path.exists()
    with listening(path):
        connect(path)


def test_what_a_killed_agent_left_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "agent.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    assert path.exists()
    with listening(path):
        connect(path)


def test_one_that_lives_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "agent.sock"
    with listening(path):
        with pytest.raises(ConfigurationError, match="another agent does"), listening(path):
            pass
        connect(path)


def test_another_program_s_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "agent.sock"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        with pytest.raises(ConfigurationError, match="another program does"), listening(path):
            pass
        connect(path)


def test_one_that_is_too_busy_to_answer_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "agent.sock"
    with socket.socket(socket.AF_UNIX) as other, socket.socket(socket.AF_UNIX) as waiting:
        other.bind(str(path))
        other.listen(0)
        waiting.connect(str(path))  # as many as wait there
        with pytest.raises(ConfigurationError, match="another program may"), listening(path):
            pass
        other.accept()[0].close()
        connect(path)


def test_one_that_takes_datagrams_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(str(path))
        with pytest.raises(ConfigurationError, match="another program may"), listening(path):
            pass
        assert path.exists()


def test_a_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "agent.sock"
    path.write_text("mine")
    with pytest.raises(ConfigurationError, match="no socket"), listening(path):
        pass
    assert path.read_text() == "mine"


@pytest.mark.parametrize("name", ["no/such/folder", "x" * 120])
def test_where_none_can_be_it_says_so(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot listen on"), listening(tmp_path / name):
        pass
