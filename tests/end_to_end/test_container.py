"""The Containerfile's steps, run in empty folders: the wheel serves and translates elsewhere."""

import os
import re
import shutil
import signal
import subprocess
import tomllib
import venv
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tests.helpers.serving import translate

ROOT = Path(__file__).resolve().parents[2]
SERVER, BEAM = "Containerfile", "docs/launch/beam.Containerfile"


def steps(name: str, file: str = SERVER) -> list[str]:
    lines = (ROOT / file).read_text().replace("\\\n", " ").splitlines()
    return [line.removeprefix(name).strip() for line in lines if line.startswith(f"{name} ")]


@pytest.mark.parametrize("file", [SERVER, BEAM])
def test_every_copied_path_exists(file):
    copied = [
        path for step in steps("COPY", file) if "--from" not in step for path in step.split()[:-1]
    ]
    assert copied
    optional = {"my_task[s].py"}  # a pattern: no file need match it
    assert [path for path in copied if not (ROOT / path).exists()] == sorted(
        optional & set(copied)
    )


def test_the_image_of_beams_workers_has_a_version_that_the_extra_allows():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (beam,) = (Requirement(extra) for extra in extras["optional-dependencies"]["beam"]
               if extra.startswith("apache-beam"))  # fmt: skip
    (version,) = (step.removeprefix("BEAM=") for step in steps("ARG", BEAM) if "=" in step)
    assert beam.specifier.contains(version)
    (image,) = steps("FROM", BEAM)
    (python,) = re.findall(r"beam_python([\d.]+)_sdk:", image)
    assert SpecifierSet(extras["requires-python"]).contains(python)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The folder of the commands of an environment that has only the wheel with [serve]."""
    folder = tmp_path_factory.mktemp("container")
    source, wheels, environment = folder / "source", folder / "wheels", folder / "environment"
    for step in steps("COPY"):
        if "--from" not in step:
            for path in step.split()[:-1]:
                if (ROOT / path).is_dir():
                    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
                    shutil.copytree(ROOT / path, source / path, ignore=ignored)
                else:
                    source.mkdir(exist_ok=True)
                    shutil.copy(ROOT / path, source)
    venv.create(environment, with_pip=True)
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    clean["PATH"] = f"{environment / 'bin'}:{clean['PATH']}"
    for step in steps("RUN")[:2]:  # the third makes a user
        command = step.replace("/wheels", str(wheels))
        subprocess.run(command, shell=True, check=True, cwd=source, env=clean, timeout=1200)
    return environment / "bin", clean


@pytest.mark.slow
def test_the_wheel_serves_outside_the_checkout(installed, tmp_path):
    binaries, environment = installed
    model = tmp_path / "model"
    shutil.copytree(ROOT / "benchmarks/mix150/model", model)
    flags = ["serve", "--host", "127.0.0.1", "--port", "0", "--model", str(model)]
    environment = environment | {"MMT_DATA": str(tmp_path / "cache")}
    server = subprocess.Popen(
        [str(binaries / "mmt"), *flags], cwd=tmp_path, env=environment, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    try:
        lines = []
        for line in server.stderr:
            lines.append(line)
            if address := re.search(r"http://127\.0\.0\.1:(\d+) translates", line):
                break
        else:
            raise AssertionError("".join(lines))
        port = int(address[1])
        answer = translate(port, "Jag behöver en ny bil.", source="sv")
        assert answer.json == {"translatedText": "I need a new car."}
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0
    finally:
        server.kill()
        server.communicate()


@pytest.mark.slow
def test_the_wheel_has_all_files_of_the_packages(installed):
    """The page, gin configs and language table: what the checkout has, the wheel has."""
    binaries, environment = installed
    code = "import mmt, pathlib; print(pathlib.Path(mmt.__file__).parents[1])"
    command = [str(binaries / "python"), "-c", code]
    site = subprocess.check_output(command, env=environment, cwd="/", text=True).strip()
    folders = [
        path for step in steps("COPY") for path in step.split()[:-1] if (ROOT / path).is_dir()
    ]
    files = [
        file.relative_to(ROOT)
        for folder in folders
        for file in (ROOT / folder).rglob("*.*")
        if file.is_file() and "__pycache__" not in file.parts
    ]
    assert len(files) > 300
    assert [file for file in files if not (Path(site) / file).exists()] == []
