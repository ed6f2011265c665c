"""The forms of `mmt plan`: a step, a whole run, a search of meshes, and parameters.

Imports are lazy. Results go to stdout, messages to stderr.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from mmt.cli.data_commands import as_json
from mmt.system.atomic import write_bytes


def _plan(args: argparse.Namespace) -> None:
    if args.search is not None:
        return _search_meshes(args)
    if args.forecast is not None:
        return _forecast(args)
    if args.params:
        if flags := [flag for flag in ("decode", "compare") if getattr(args, flag)]:
            raise ValueError(f"--params counts parameters only; omit --{flags[0]}")
        return _parameters(args)
    from mmt import plan

    planner = plan.compare_meshes if args.compare else plan.plan
    result = planner(args.gin_file, args.bindings, args.topology, decode=args.decode)
    print(as_json(result.to_json()) if args.json else result.table())


def _forecast(args: argparse.Namespace) -> None:
    for flag in ("params", "decode", "compare"):
        if getattr(args, flag):
            raise ValueError(f"--run forecasts a training on one mesh; omit --{flag}")
    from mmt.plan import run_inputs, run_table

    directory = Path(args.forecast) if args.forecast else None
    run = run_inputs.forecast(args.gin_file, args.bindings, args.topology, directory)
    text, content = run_table.table(run), as_json(run.to_json())
    print(content if args.json else text)
    if directory:
        from eval.report.figures import run_forecast

        figures = run_forecast.draw(run.to_json(), run.goodput.seconds.tolist())
        for name, data in {"forecast.txt": f"{text}\n", "forecast.json": f"{content}\n",
                           **figures}.items():  # fmt: skip
            write_bytes(directory / name, data if isinstance(data, bytes) else data.encode())
            print(directory / name, file=sys.stderr)


def _search_meshes(args: argparse.Namespace) -> None:
    other_modes = {"params": args.params, "decode": args.decode, "compare": args.compare,
            "run": args.forecast is not None}  # fmt: skip
    if flags := [flag for flag, is_set in other_modes.items() if is_set]:
        raise ValueError(f"--search ranks meshes for a training step; omit --{flags[0]}")
    from mmt.plan import mesh_search

    result = mesh_search.search(
        args.gin_file, args.bindings, args.topology, compiled=args.search
    )
    print(as_json(result.to_json()) if args.json else result.table())


def _parameters(args: argparse.Namespace) -> None:
    from mmt import config
    from mmt.plan import parameters

    config.load(args.gin_file, args.bindings, may_leave_open=True)
    model = config.macro("MODEL")
    if model is None:
        files = ", ".join(args.gin_file)
        raise ValueError(f"{files}: no MODEL; add a --gin_file of gin_configs/models")
    counts = parameters.count(model)
    print(as_json({"parameters": counts.to_json()}) if args.json else counts.table())


COMMANDS: dict[str, Callable[[argparse.Namespace], None]] = {
    "plan": _plan,
}  # fmt: skip
