"""Reads a JobSet of Kubernetes: the processes that its pods would run."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from mmt import suggest
from mmt.launch.local import Task

_INDEX = "JOB_COMPLETION_INDEX"
_COORDINATOR, _COUNT = "JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES"


def tasks(
    file: Path, arguments: Sequence[str], processes: int | None, local_variables: Mapping[str, str]
) -> list[Task]:
    """Returns a task for each pod: the command of the container and its environment.

    Args:
      file: the manifest; other objects in it are ignored.
      arguments: arguments that are added to the command.
      processes: the number of pods; by default `completions`.
      local_variables: replace those of the manifest, with the local coordinator. So do variables of
        this process's environment that the manifest names.

    Raises:
      ValueError: the manifest is not valid YAML, has no JobSet, or its pods would not find each
        other as one run. The field is named.
    """
    name, job, pods = _jobset(file)
    container = pods.only("template.spec.template.spec.containers")
    environment = _environment(container)
    _check(file, name, job, pods, environment)
    count = processes or pods.number("template.spec.completions")
    overrides = {key: os.environ[key] for key in environment if key in os.environ}
    environment = {**environment, **overrides, _COUNT: str(count), **local_variables}
    command = [*container.get("command", list), *container.get("args", list, [])]
    if not command:
        raise ValueError(f"{container.place}.command is missing")
    pod_tasks = []
    for index in range(count):
        variables = _expanded(environment | {_INDEX: str(index)})
        words = [_substituted(str(word), variables) for word in command]
        pod_tasks.append(Task([*words, *arguments], variables))
    return pod_tasks


class _Field:
    """A mapping of the manifest, with its place in the file for error messages."""

    def __init__(self, content: Any, place: str) -> None:
        if not isinstance(content, dict):
            raise ValueError(f"{place} is {content!r}; allowed: a mapping")
        self.content, self.place = content, place

    def get(self, path: str, kind: type, default: Any = None) -> Any:
        """Returns the value at a path of keys with dots, which must be of a kind."""
        value: Any = self.content
        keys = path.split(".")
        for depth, key in enumerate(keys):
            if not isinstance(value, dict) or key not in value:
                if default is not None:
                    return default
                known = list(value) if isinstance(value, dict) else []
                place = ".".join([self.place, *keys[: depth + 1]])
                raise ValueError(f"{place} is missing{suggest.hint(key, known)}")
            value = value[key]
        if not isinstance(value, kind) or isinstance(value, bool) != (kind is bool):
            raise ValueError(f"{self.place}.{path} is {value!r}; allowed: {kind.__name__}")
        return value

    def number(self, path: str) -> int:
        """Returns a number of 1 or more."""
        value = self.get(path, int)
        if value < 1:
            raise ValueError(f"{self.place}.{path} is {value}; allowed: 1 or more")
        return int(value)

    def only(self, path: str) -> "_Field":
        """Returns the only element of a list."""
        elements = self.get(path, list)
        if len(elements) != 1:
            raise ValueError(f"{self.place}.{path} has {len(elements)} elements; allowed: 1")
        return _Field(elements[0], f"{self.place}.{path}[0]")


def _jobset(file: Path) -> tuple[str, str, _Field]:
    """Returns the names of the JobSet and of its only job, and the job."""
    try:
        documents = list(yaml.safe_load_all(file.read_text(encoding="utf-8")))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ValueError(f"{file}:{line}: {error.problem}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{file}: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise ValueError(f"{file}: nested too deeply") from error
    kinds = [document.get("kind") if isinstance(document, dict) else None for document in documents]
    if kinds.count("JobSet") != 1:
        listed = ", ".join(map(str, filter(None, kinds))) or "nothing"
        raise ValueError(f"{file} must have one JobSet; it has: {listed}")
    jobset = _Field(documents[kinds.index("JobSet")], f"{file}: JobSet")
    pods = jobset.only("spec.replicatedJobs")
    if (replicas := pods.get("replicas", int, 1)) != 1:
        raise ValueError(f"{pods.place}.replicas is {replicas}; a run is one job: allowed: 1")
    return jobset.get("metadata.name", str), pods.get("name", str), pods


def _check(file: Path, name: str, job: str, pods: _Field, environment: Mapping[str, str]) -> None:
    """Raises ValueError if the pods would not start as one run."""
    count = pods.number("template.spec.completions")
    if (parallelism := pods.get("template.spec.parallelism", int, 1)) != count:
        raise ValueError(
            f"{pods.place}.template.spec.parallelism is {parallelism}, completions is {count}; all "
            "pods of a run must run at once: both must be equal"
        )
    mode = pods.get("template.spec.completionMode", str, "NonIndexed")
    if mode != "Indexed":
        raise ValueError(
            f"{pods.place}.template.spec.completionMode is {mode!r}; allowed: 'Indexed', else the "
            "pods do not know their index"
        )
    if _COORDINATOR not in environment:  # on TPUs of GKE, JAX finds it
        return
    host = f"{name}-{job}-0-0.{name}"
    if environment[_COORDINATOR].rpartition(":")[0] != host:
        raise ValueError(
            f"{file}: {_COORDINATOR} is {environment[_COORDINATOR]!r}; the first pod is {host}"
        )
    if environment.get(_COUNT) != str(count):
        raise ValueError(
            f"{file}: {_COUNT} is {environment.get(_COUNT)!r}, completions is {count}; "
            "both must be equal"
        )


def _environment(container: _Field) -> dict[str, str]:
    """Returns the variables of a container that have a value in the manifest."""
    variables: dict[str, str] = {}
    for number, entry in enumerate(container.get("env", list, [])):
        variable = _Field(entry, f"{container.place}.env[{number}]")
        if "valueFrom" not in variable.content:  # of the cluster
            variables[variable.get("name", str)] = variable.get("value", str, "")
    return variables


def _expanded(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables with `$(NAME)` of earlier ones replaced, as Kubernetes does."""
    expanded: dict[str, str] = {}
    for name, value in environment.items():
        expanded[name] = _substituted(value, expanded)
    return expanded


def _substituted(text: str, variables: Mapping[str, str]) -> str:
    return re.sub(r"\$\((\w+)\)", lambda match: variables.get(match[1], match[0]), text)
